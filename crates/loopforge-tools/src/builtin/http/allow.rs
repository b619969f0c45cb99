//! The list of hosts that a task grants, and the addresses that no name may lead to.
//!
//! A name in the list grants public addresses only. Whoever owns a name decides where it points, so a private address is
//! reached only when the task lists that address itself (or `localhost`, for the loopback).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

use crate::builtin::BuiltinError;

/// The hosts that a tool may reach.
#[derive(Debug, Clone)]
pub(super) struct AllowList {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    host: HostRule,
    port: PortRule,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostRule {
    /// `*`: every host with a public address.
    Any,
    /// `*.example.com`: everything below, not the name itself.
    Below(String),
    Name(String),
    Address(IpAddr),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PortRule {
    /// 80 for `http`, 443 for `https`.
    Usual,
    Any,
    Exactly(u16),
}

/// Why a target may not be reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotAllowed {
    #[error(
        "no host is allowed: list the hosts of this tool under `allow` in the task file, for example `allow: [\"{0}\"]`"
    )]
    NoList(String),
    #[error("`{0}` is not in this tool's `allow` list: add it in the task file, or use a host that is listed ({1})")]
    NotListed(String, String),
    #[error(
        "`{host}` leads to {address}, {kind}: list `{address}` itself under `allow` in the task file if it is meant"
    )]
    Guarded { host: String, address: IpAddr, kind: &'static str },
    #[error("`{0}` is not a web address: write `http://` or `https://`, a host, and a path")]
    NotHttp(String),
}

impl AllowList {
    /// Reads the entries of a task file.
    pub(super) fn read(entries: &[String]) -> Result<Self, BuiltinError> {
        let entries = entries
            .iter()
            .map(|text| {
                Entry::read(text.trim())
                    .map_err(|reason| BuiltinError::InvalidHost { entry: text.clone(), reason: reason.to_owned() })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { entries })
    }

    /// Whether `url` may be asked for. For a name, [`Self::check_address`] must follow once it is resolved.
    pub(super) fn check_url(&self, url: &Url) -> Result<(), NotAllowed> {
        let port = url.port_or_known_default();
        let (Some(host), Some(port)) = (host_of(url), port) else {
            return Err(NotAllowed::NotHttp(url.to_string()));
        };
        if !matches!(url.scheme(), "http" | "https") {
            return Err(NotAllowed::NotHttp(url.to_string()));
        }
        let shown = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_string(),
        };
        if self.entries.is_empty() {
            return Err(NotAllowed::NoList(shown));
        }
        let usual = url.port().is_none();
        if !self.entries.iter().any(|entry| entry.admits(&host, port, usual)) {
            let listed: Vec<String> = self.entries.iter().map(ToString::to_string).collect();
            return Err(NotAllowed::NotListed(shown, listed.join(", ")));
        }
        match host {
            Host::Address(address) => self.check_address(&shown, address),
            Host::Name(_) => Ok(()),
        }
    }

    /// Whether `host` may lead to `address`.
    pub(super) fn check_address(&self, host: &str, address: IpAddr) -> Result<(), NotAllowed> {
        let Some(kind) = guarded(address) else { return Ok(()) };
        let address = address.to_canonical();
        let listed = self.entries.iter().any(|entry| match &entry.host {
            HostRule::Address(other) => *other == address,
            HostRule::Name(name) => name == "localhost" && host == "localhost" && address.is_loopback(),
            HostRule::Any | HostRule::Below(_) => false,
        });
        if listed { Ok(()) } else { Err(NotAllowed::Guarded { host: host.to_owned(), address, kind }) }
    }
}

enum Host {
    Name(String),
    Address(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
        }
    }
}

/// The host of a URL, where other spellings of an address (`0x7f.1`, `2130706433`, `::ffff:127.0.0.1`) are that address.
fn host_of(url: &Url) -> Option<Host> {
    let text = url.host_str()?;
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    Some(match bare.parse::<IpAddr>() {
        Ok(address) => Host::Address(address.to_canonical()),
        Err(_) => Host::Name(text.trim_end_matches('.').to_ascii_lowercase()),
    })
}

impl Entry {
    fn read(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("it is empty");
        }
        if text.contains("://") || text.contains('/') || text.contains('@') {
            return Err(
                "write the host alone, without scheme and path: `shop.example`, `*.example.com`, `127.0.0.1:*`",
            );
        }
        let (host, port) = split_port(text)?;
        let port = match port {
            None => PortRule::Usual,
            Some("*") => PortRule::Any,
            Some(number) => {
                PortRule::Exactly(number.parse().map_err(|_| "the port is a number, or `*` for every port")?)
            }
        };
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        let host = if let Ok(address) = bare.parse::<IpAddr>() {
            HostRule::Address(address.to_canonical())
        } else if host == "*" {
            HostRule::Any
        } else if let Some(below) = host.strip_prefix("*.") {
            HostRule::Below(ascii_name(below)?)
        } else {
            HostRule::Name(ascii_name(host)?)
        };
        Ok(Self { host, port })
    }

    fn admits(&self, host: &Host, port: u16, usual_port: bool) -> bool {
        let port_fits = match self.port {
            PortRule::Usual => usual_port,
            PortRule::Any => true,
            PortRule::Exactly(exact) => exact == port,
        };
        port_fits
            && match (&self.host, host) {
                (HostRule::Any, _) => true,
                (HostRule::Below(suffix), Host::Name(name)) => {
                    name.strip_suffix(suffix.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
                }
                (HostRule::Name(listed), Host::Name(name)) => listed == name,
                (HostRule::Address(listed), Host::Address(address)) => listed == address,
                _ => false,
            }
    }
}

fn split_port(text: &str) -> Result<(&str, Option<&str>), &'static str> {
    if text.starts_with('[') {
        let end = text.find(']').ok_or("the `[` of an IPv6 address has no `]`")?;
        let (host, rest) = text.split_at(end + 1);
        return match rest {
            "" => Ok((host, None)),
            _ => rest.strip_prefix(':').map(|port| (host, Some(port))).ok_or("after `]` comes `:` and a port"),
        };
    }
    match text.split_once(':') {
        None => Ok((text, None)),
        // More than one colon: an IPv6 address without brackets and port.
        Some((_, rest)) if rest.contains(':') => Ok((text, None)),
        Some((host, port)) => Ok((host, Some(port))),
    }
}

/// The name as it stands in URLs: lower case, with international names in their ASCII form.
fn ascii_name(name: &str) -> Result<String, &'static str> {
    if name.contains('*') {
        return Err("`*` stands alone or before the first dot: `*.example.com`");
    }
    let url = Url::parse(&format!("http://{name}/")).map_err(|_| "it can't be a host name")?;
    match host_of(&url) {
        Some(Host::Name(name)) if !name.is_empty() => Ok(name),
        _ => Err("it can't be a host name"),
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            HostRule::Any => f.write_str("*")?,
            HostRule::Below(suffix) => write!(f, "*.{suffix}")?,
            HostRule::Name(name) => f.write_str(name)?,
            HostRule::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
            HostRule::Address(IpAddr::V4(address)) => address.fmt(f)?,
        }
        match self.port {
            PortRule::Usual => Ok(()),
            PortRule::Any => f.write_str(":*"),
            PortRule::Exactly(port) => write!(f, ":{port}"),
        }
    }
}

/// What kind of address that isn't public this is, or `None` for a public one.
///
/// Source: the IANA special-purpose address registries (RFC 6890 and its updates).
pub(super) fn guarded(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(address) => guarded_v4(address),
        IpAddr::V6(address) => guarded_v6(address),
    }
}

fn guarded_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (127, ..) => Some("a loopback address"),
        (169, 254, _) => Some("a link-local address (cloud metadata is served there)"),
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => Some("a private address"),
        (100, 64..=127, _) => Some("an address of a carrier's inner network"),
        (0, ..) => Some("an address of this host"),
        (192, 0, 0 | 2) | (198, 18..=19, _) | (198, 51, 100) | (203, 0, 113) => Some("an address reserved for tests"),
        (224..=239, ..) => Some("a multicast address"),
        (240..=255, ..) => Some("a reserved address"),
        _ => None,
    }
}

fn guarded_v6(address: Ipv6Addr) -> Option<&'static str> {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        guarded_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("a loopback address"),
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("an address of this host"),
        // Addresses that carry an IPv4 address lead where that one leads: compatible, NAT64, 6to4.
        [0, 0, 0, 0, 0, 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x2002, high, low, ..] => embedded(high, low),
        [0x64, 0xff9b, 1, ..] => Some("a private address"),
        [0xfc00..=0xfdff, ..] => Some("a unique local address"),
        [0xfe80..=0xfebf, ..] => Some("a link-local address"),
        [0xfec0..=0xfeff, ..] => Some("a private address"),
        [0xff00..=0xffff, ..] => Some("a multicast address"),
        [0x2001, 0xdb8, ..] | [0x100, 0, 0, 0, ..] => Some("an address reserved for tests"),
        // Teredo tunnels to an IPv4 address that can't be seen here.
        [0x2001, 0, ..] => Some("a tunnel address"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
