//! `http_get` and `http_request`: one checked way to the network.
//!
//! Every hop of a redirect passes the same check as the first, and the address that was checked is the one that is connected
//! to ([`client`]). What went wrong is told by one table from status to code ([`outcome`]).

mod allow;
mod client;
mod exchange;
mod get;
mod outcome;
mod request;
mod wait;

pub(super) use get::HttpGet;
pub(super) use request::HttpRequest;
