//! `http_get`.

use std::collections::BTreeMap;

use async_trait::async_trait;
use loopforge_core::json::Json;
use loopforge_core::tool::{Contract, ToolResult};
use reqwest::Method;
use reqwest::header::HeaderMap;
use schemars::JsonSchema;
use serde::Deserialize;

use super::client::Reuse;
use super::exchange::{DEFAULT_MAX_BYTES, Network, Outgoing, read_headers, read_url};
use super::outcome;
use crate::builtin::{BuiltinConfig, BuiltinError, arguments, compute};
use crate::{CallContext, Tool};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The address, in full: `https://shop.example/p/1`.
    url: String,
    /// Headers to send.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The size above which the rest of the body is left out. 64 MiB unless set.
    #[serde(default)]
    #[schemars(range(min = 1, max = 268_435_456))]
    max_bytes: Option<u64>,
}

/// Fetches a page or document.
#[derive(Debug)]
pub(in crate::builtin) struct HttpGet {
    contract: Contract,
    network: Network,
}

impl HttpGet {
    pub(in crate::builtin) fn new(config: &BuiltinConfig) -> Result<Self, BuiltinError> {
        let description = "Fetches a web page or document by HTTP GET and returns its text, following redirects.";
        let mut contract = Contract::read(description, arguments::schema::<Arguments>());
        contract.key_fields = vec!["/url".to_owned(), "/status".to_owned()];
        contract.volatile = vec!["/etag".to_owned(), "/last_modified".to_owned()];
        contract.meaning_of_empty = Some("the server answered, and the document is empty".to_owned());
        Ok(Self { contract, network: Network::new("http_get", config, Reuse::Connections)? })
    }

    async fn get(&self, arguments: Json, context: &CallContext) -> Result<ToolResult, ToolResult> {
        let arguments: Arguments = arguments::read(arguments)?;
        let outgoing = Outgoing {
            method: Method::GET,
            url: read_url(&arguments.url)?,
            headers: read_headers(&arguments.headers)?,
            own_headers: HeaderMap::new(),
            body: None,
            max_bytes: arguments.max_bytes.unwrap_or(DEFAULT_MAX_BYTES),
        };
        let answer = self.network.exchange(outgoing, context).await?;
        Ok(compute::blocking(context, move || outcome::result(answer)).await)
    }
}

#[async_trait]
impl Tool for HttpGet {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    async fn call(&self, arguments: Json, context: &CallContext) -> ToolResult {
        self.get(arguments, context).await.unwrap_or_else(|failure| failure)
    }
}
