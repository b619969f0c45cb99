//! The HTTP client of a tool: what it connects to is what was checked.

use std::error::Error as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;

use super::allow::{AllowList, NotAllowed};
use crate::builtin::BuiltinError;

/// A connection that isn't there after this time won't come; the rest of a call's time is left for a plain answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(8);

/// Whether connections are kept for the next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reuse {
    /// Yes: right for reads, which can be made again.
    Connections,
    /// No: on a kept connection that the server just closed, a write that never arrived looks like one that may have.
    Nothing,
}

/// Builds the client of one tool.
///
/// It follows no redirect by itself (each hop is checked by the caller), uses no proxy (a proxy would resolve names by
/// itself, unchecked), and its resolver hands out only addresses that `allow` admits, so that a name can't be pointed
/// elsewhere between the check and the connection.
pub(super) fn build(tool: &'static str, allow: Arc<AllowList>, reuse: Reuse) -> Result<reqwest::Client, BuiltinError> {
    // The process has one provider; whoever comes first installs it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let idle = match reuse {
        Reuse::Connections => 4,
        Reuse::Nothing => 0,
    };
    reqwest::Client::builder()
        .user_agent(concat!("loopforge/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_max_idle_per_host(idle)
        .dns_resolver(Arc::new(CheckedResolver { allow }))
        .build()
        .map_err(|error| BuiltinError::Setup { name: tool, reason: chain(&error) })
}

#[derive(Debug)]
struct CheckedResolver {
    allow: Arc<AllowList>,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allow = Arc::clone(&self.allow);
        Box::pin(async move {
            let host = name.as_str().trim_end_matches('.').to_ascii_lowercase();
            let addresses: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            for address in &addresses {
                // One bad address condemns the name: falling back to another would hide that somebody points it inside.
                allow.check_address(&host, address.ip())?;
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// The refusal of [`CheckedResolver`], if that is why a request failed.
pub(super) fn refusal(error: &reqwest::Error) -> Option<&NotAllowed> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(refusal) = error.downcast_ref::<NotAllowed>() {
            return Some(refusal);
        }
        source = error.source();
    }
    None
}

/// An error with its causes in one line. Causes that only repeat what was said are left out.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let part = error.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        source = error.source();
    }
    text
}
