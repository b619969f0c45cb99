//! `http_request`.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use loopforge_core::json::Json;
use loopforge_core::tool::{Contract, ToolResult};
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use schemars::JsonSchema;
use serde::Deserialize;

use super::client::Reuse;
use super::exchange::{DEFAULT_MAX_BYTES, Network, Outgoing, read_headers, read_url};
use super::outcome;
use crate::builtin::arguments::invalid;
use crate::builtin::{BuiltinConfig, BuiltinError, arguments, compute};
use crate::{CallContext, Tool};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The address, in full: `https://shop.example/orders`.
    url: String,
    /// The method. POST unless set.
    #[serde(default)]
    method: Verb,
    /// The body, as a JSON value. Not together with `body`.
    #[serde(default)]
    json: Option<Json>,
    /// The body, as a text. Not together with `json`.
    #[serde(default)]
    body: Option<String>,
    /// Headers to send. `Idempotency-Key` is sent by itself.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The size above which the rest of the answer is left out. 64 MiB unless set.
    #[serde(default)]
    #[schemars(range(min = 1, max = 268_435_456))]
    max_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
enum Verb {
    #[default]
    Post,
    Put,
    Patch,
    Delete,
}

/// Changes something by HTTP.
#[derive(Debug)]
pub(in crate::builtin) struct HttpRequest {
    contract: Contract,
    network: Network,
}

impl HttpRequest {
    pub(in crate::builtin) fn new(config: &BuiltinConfig) -> Result<Self, BuiltinError> {
        let description = "Sends an HTTP request that changes something (POST, PUT, PATCH, DELETE) and returns the answer. \
                           The step token goes along as `Idempotency-Key`.";
        let mut contract = Contract::write(description, arguments::schema::<Arguments>());
        contract.key_fields = vec!["/url".to_owned(), "/status".to_owned(), "/location".to_owned()];
        contract.volatile = vec!["/etag".to_owned(), "/last_modified".to_owned()];
        contract.meaning_of_empty = Some("the server accepted the request and had nothing to say".to_owned());
        Ok(Self { contract, network: Network::new("http_request", config, Reuse::Nothing)? })
    }

    async fn request(&self, arguments: Json, context: &CallContext) -> Result<ToolResult, ToolResult> {
        let arguments: Arguments = arguments::read(arguments)?;
        let outgoing = outgoing(arguments, context)?;
        let answer = self.network.exchange(outgoing, context).await?;
        // Not under the call's limits any more: the answer is here, and losing it would make the effect unknown.
        match tokio::task::spawn_blocking(move || outcome::result(answer)).await {
            Ok(result) => Ok(result),
            Err(error) => Err(compute::broken(&error)),
        }
    }
}

fn outgoing(arguments: Arguments, context: &CallContext) -> Result<Outgoing, ToolResult> {
    let url = read_url(&arguments.url)?;
    let mut headers = read_headers(&arguments.headers)?;
    let (body, content_type) = match (arguments.json, arguments.body) {
        (Some(_), Some(_)) => {
            return Err(invalid("`json` and `body` are both given: a request has one body, give one of them"));
        }
        (Some(json), None) => (Some(Bytes::from(json.to_string())), Some("application/json")),
        (None, Some(text)) => (Some(Bytes::from(text)), Some("text/plain; charset=utf-8")),
        (None, None) => (None, None),
    };
    if let Some(content_type) = content_type {
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(content_type));
    }
    let mut own_headers = HeaderMap::new();
    if let Some(token) = &context.step_token {
        let value = HeaderValue::from_str(&token.0).map_err(|_| invalid("the step token can't be sent as a header"))?;
        own_headers.insert("idempotency-key", value);
    }
    Ok(Outgoing {
        method: match arguments.method {
            Verb::Post => Method::POST,
            Verb::Put => Method::PUT,
            Verb::Patch => Method::PATCH,
            Verb::Delete => Method::DELETE,
        },
        url,
        headers,
        own_headers,
        body,
        max_bytes: arguments.max_bytes.unwrap_or(DEFAULT_MAX_BYTES),
    })
}

#[async_trait]
impl Tool for HttpRequest {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    async fn call(&self, arguments: Json, context: &CallContext) -> ToolResult {
        self.request(arguments, context).await.unwrap_or_else(|failure| failure)
    }
}
