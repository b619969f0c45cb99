//! The address of a store: where its server is, and which of its schemas is meant.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, TargetSessionAttrs};

use crate::StoreError;

/// Where the tables are unless the address says otherwise.
const SCHEMA: &str = "loopforge";

/// How long one host is tried. Several are tried one after the other.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// After this time without a sign a connection is asked whether it lives, and is given up when it doesn't answer.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(20);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;

/// Sent bytes that aren't acknowledged for this long mean that the network is cut.
const USER_TIMEOUT: Duration = Duration::from_secs(15);

/// How a connection is protected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tls {
    /// Not at all.
    Off,
    /// Where the server offers it, and without asking who it is: against nobody but listeners.
    Opportunistic,
    /// Always, with a certificate that this machine trusts, or one that a file of certificates vouches for.
    Verified { roots: Option<PathBuf> },
}

/// What a lock is about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lock {
    /// The tables are made.
    Tables,
    /// Records come to refer to blobs, or blobs that nobody refers to are removed.
    Blobs,
}

/// With whom a lock is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    Alone,
    WithOthers,
}

/// An address, taken apart.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) config: Config,
    pub(crate) schema: String,
    pub(crate) tls: Tls,
}

impl Address {
    /// Reads `postgres://...`, as libpq does, and `schema=` beside its parameters.
    pub(crate) fn parse(url: &str) -> Result<Self, StoreError> {
        let wrong = |problem: String| StoreError::NotAStore(format!("the address of the store {problem}"));
        let (before, parameters) = url.split_once('?').unwrap_or((url, ""));
        let mut schema = SCHEMA.to_owned();
        let (mut mode, mut roots) = ("prefer".to_owned(), None);
        let mut others = Vec::new();
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("schema", name)) => name.clone_into(&mut schema),
                Some(("sslmode", name)) => name.clone_into(&mut mode),
                Some(("sslrootcert", path)) => roots = Some(PathBuf::from(path.replace("%2F", "/"))),
                // Several, as libpq has them.
                Some(("host", hosts)) => others.extend(hosts.split(',').map(|host| format!("host={host}"))),
                _ => others.push(parameter.to_owned()),
            }
        }
        // Quoted nowhere, so that nothing needs to be.
        let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        if schema.is_empty() || schema.len() > 63 || !schema.chars().all(plain) || schema.starts_with("pg_") {
            return Err(wrong(format!(
                "names the schema `{schema}`: lower-case letters, digits and `_` are possible, 63 at most, not `pg_...`"
            )));
        }
        let mut rest = before.to_owned();
        for (position, parameter) in others.iter().enumerate() {
            rest.push(if position == 0 { '?' } else { '&' });
            rest.push_str(parameter);
        }
        // What the parser says may hold parts of the address, and with them a password.
        let mut config = Config::from_str(&rest)
            .map_err(|_| wrong("can't be read: write `postgres://USER:PASSWORD@HOST:PORT/DATABASE`".to_owned()))?;
        let tls = match mode.as_str() {
            "disable" => Tls::Off,
            "allow" | "prefer" => Tls::Opportunistic,
            "require" | "verify-ca" | "verify-full" => Tls::Verified { roots },
            other => return Err(wrong(format!("has `sslmode={other}`: `disable`, `prefer` or `verify-full`"))),
        };
        config.ssl_mode(match tls {
            Tls::Off => tokio_postgres::config::SslMode::Disable,
            Tls::Opportunistic => tokio_postgres::config::SslMode::Prefer,
            Tls::Verified { .. } => tokio_postgres::config::SslMode::Require,
        });
        if config.get_application_name().is_none() {
            config.application_name("loopforge");
        }
        if config.get_user().is_none()
            && let Ok(user) = std::env::var("PGUSER").or_else(|_| std::env::var("USER"))
        {
            config.user(user);
        }
        if config.get_password().is_none()
            && let Ok(password) = std::env::var("PGPASSWORD")
        {
            config.password(password);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        config.keepalives_idle(KEEPALIVE_IDLE).keepalives_interval(KEEPALIVE_INTERVAL);
        config.keepalives_retries(KEEPALIVE_RETRIES);
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(USER_TIMEOUT);
        }
        Ok(Self { config, schema, tls })
    }

    /// The call that takes a lock of this store until the end of the transaction.
    pub(crate) fn lock(&self, lock: Lock, share: Share) -> String {
        // Numbers that no other program uses: "LFrg", and the next.
        let class = 0x4c46_7267 + lock as i32;
        let mut name = [0; 4];
        name.copy_from_slice(&blake3::hash(self.schema.as_bytes()).as_bytes()[..4]);
        let function = if share == Share::Alone { "pg_advisory_xact_lock" } else { "pg_advisory_xact_lock_shared" };
        format!("{function}({class}, {})", i32::from_le_bytes(name))
    }

    /// The same for connections that write: they want the server that can be written to, and settings of their own.
    pub(crate) fn for_writing(&self) -> Config {
        let mut config = self.with_settings("-c lock_timeout=5s -c idle_in_transaction_session_timeout=30s");
        // A commit may be waiting for its replica: a limit on statements would end the wait as if it had come.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config
    }

    /// The same for connections that only read.
    pub(crate) fn for_reading(&self) -> Config {
        self.with_settings("-c lock_timeout=5s -c statement_timeout=60s")
    }

    fn with_settings(&self, settings: &str) -> Config {
        let mut config = self.config.clone();
        let given = config.get_options().map(|given| format!("{given} ")).unwrap_or_default();
        config.options(format!(
            "{given}-c search_path={} -c synchronous_commit=on -c client_min_messages=warning {settings}",
            self.schema
        ));
        config
    }
}

/// Without passwords.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        if let Some(user) = self.config.get_user() {
            write!(f, "{user}@")?;
        }
        let ports = self.config.get_ports();
        for (position, host) in self.config.get_hosts().iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            match host {
                Host::Tcp(name) => f.write_str(name)?,
                Host::Unix(folder) => write!(f, "{}", folder.display())?,
            }
            if let Some(port) = ports.get(position).or(ports.first()) {
                write!(f, ":{port}")?;
            }
        }
        write!(f, "/{}", self.config.get_dbname().unwrap_or_default())?;
        if self.schema != SCHEMA {
            write!(f, "?schema={}", self.schema)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
