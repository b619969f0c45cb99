//! From a model's name and what the task says about it to a model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopforge_core::json::Json;
use reqwest::Url;
use serde_json::Map;

use crate::http::{Endpoint, KeyHeader, Secret};
use crate::provider::Provider;
use crate::recording::{Cassette, Recorder, Replay};
use crate::script::ScriptModel;
use crate::wire::{Api, Options};
use crate::{Description, Model};

/// What a model is made from.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Setup {
    /// `provider/model`: `openai/gpt-5-mini`, `anthropic/claude-haiku-4-5`, `script/rules.yaml`.
    pub name: String,
    /// Where the provider is reached, when not at its usual address. `${env.NAME}` is replaced.
    pub base_url: Option<String>,
    /// How it is spoken to, when not as the provider's name says.
    pub api: Option<Api>,
    /// The variable with the key.
    pub api_key_env: Option<String>,
    /// Tokens of input and output together.
    pub context_window: Option<u64>,
    /// The most tokens of output, where a request says nothing.
    pub max_output_tokens: Option<u32>,
    /// Headers sent along. `${env.NAME}` is replaced.
    pub headers: BTreeMap<String, String>,
    /// Members that replace those of each request's body; `null` takes one out.
    pub body: Map<String, Json>,
    /// Records every call at the end of this file, for `replay/FILE`.
    pub record_to: Option<PathBuf>,
}

impl Setup {
    /// A model by its name alone.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

/// A model can't be made. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("model `{model}`: {problem}")]
pub struct SetupError {
    /// Its name.
    pub model: String,
    /// What is wrong, with the remedy.
    pub problem: String,
}

/// Makes a model. Keys and addresses come from the environment of the process; relative files start at `base`, the folder of the task file.
///
/// # Errors
/// [`SetupError`]: the name is none, a key is missing, a file can't be read. Nothing was sent.
pub fn build(setup: &Setup, base: &Path) -> Result<Arc<dyn Model>, SetupError> {
    build_with(setup, base, &|name| std::env::var(name).ok())
}

/// Makes a model, with another environment.
///
/// # Errors
/// As [`build`].
pub fn build_with(
    setup: &Setup,
    base: &Path,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Arc<dyn Model>, SetupError> {
    make(setup, base, environment).map_err(|problem| SetupError { model: setup.name.clone(), problem })
}

/// A provider that is known by name.
struct Known {
    name: &'static str,
    api: Api,
    base: &'static str,
    /// The first part of its variables: `OPENAI` for `OPENAI_API_KEY` and `OPENAI_BASE_URL`.
    variables: &'static str,
    /// Whether it answers without a key.
    keyless: bool,
}

const fn known(name: &'static str, api: Api, base: &'static str, variables: &'static str, keyless: bool) -> Known {
    Known { name, api, base, variables, keyless }
}

/// Addresses as their makers publish them. Others need a `base_url`.
const KNOWN: &[Known] = &[
    known("openai", Api::Chat, "https://api.openai.com/v1", "OPENAI", false),
    known("openai-responses", Api::Responses, "https://api.openai.com/v1", "OPENAI", false),
    known("anthropic", Api::Messages, "https://api.anthropic.com", "ANTHROPIC", false),
    known("deepseek", Api::Chat, "https://api.deepseek.com/v1", "DEEPSEEK", false),
    known("gemini", Api::Chat, "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI", false),
    known("groq", Api::Chat, "https://api.groq.com/openai/v1", "GROQ", false),
    known("mistral", Api::Chat, "https://api.mistral.ai/v1", "MISTRAL", false),
    known("openrouter", Api::Chat, "https://openrouter.ai/api/v1", "OPENROUTER", false),
    known("xai", Api::Chat, "https://api.x.ai/v1", "XAI", false),
    known("ollama", Api::Chat, "http://127.0.0.1:11434/v1", "OLLAMA", true),
];

fn make(setup: &Setup, base: &Path, environment: &dyn Fn(&str) -> Option<String>) -> Result<Arc<dyn Model>, String> {
    let (provider, model) = setup
        .name
        .split_once('/')
        .filter(|(provider, model)| !provider.is_empty() && !model.is_empty())
        .ok_or("not a name of a model: write `provider/model`, such as `openai/gpt-5-mini`")?;
    let made: Arc<dyn Model> = match provider {
        "script" => Arc::new(ScriptModel::open(&setup.name, &base.join(model))?),
        "replay" => Arc::new(Replay::open(&setup.name, &base.join(model))?),
        _ => Arc::new(over_http(setup, provider, model, environment)?),
    };
    match &setup.record_to {
        Some(path) => Ok(Arc::new(Recorder::new(made, Cassette::open(&base.join(path))?))),
        None => Ok(made),
    }
}

fn over_http(
    setup: &Setup,
    provider: &str,
    model: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Provider, String> {
    // An empty variable is one that is not set.
    let variable =
        |name: &str| environment(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let known = KNOWN.iter().find(|known| known.name == provider);
    let prefix = known.map_or_else(|| variables(provider), |known| known.variables.to_owned());
    let (address, from_task) = match &setup.base_url {
        Some(text) => (fill(text, &variable)?, true),
        None => match (variable(&format!("{prefix}_BASE_URL")), known) {
            (Some(address), _) => (address, false),
            (None, Some(known)) => (known.base.to_owned(), false),
            (None, None) => {
                let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
                return Err(format!(
                    "where is `{provider}`? Give `base_url`, or set {prefix}_BASE_URL (known without: {}, script, replay)",
                    names.join(", ")
                ));
            }
        },
    };
    let api = setup.api.or(known.map(|known| known.api)).unwrap_or(Api::Chat);
    let url = endpoint(&address, api)?;
    let official = matches!(url.host_str(), Some("api.openai.com" | "api.anthropic.com"));
    let mistral = provider == "mistral" || url.host_str().is_some_and(|host| host.ends_with("mistral.ai"));
    // A key goes where it belongs: to an address that the task gives only if the task names the key, too.
    let key = match &setup.api_key_env {
        Some(name) => {
            Some(Secret::new(variable(name).ok_or_else(|| format!("set {name}, which holds the key"))?, name.as_str()))
        }
        None if from_task && !is_usual(&url, known) => None,
        None => {
            let name = format!("{prefix}_API_KEY");
            match variable(&name) {
                Some(value) => Some(Secret::new(value, name)),
                None if known.is_some_and(|known| !known.keyless && is_usual(&url, Some(known))) => {
                    return Err(format!("set {name}, which holds the key, or name another variable in `api_key_env`"));
                }
                None => None,
            }
        }
    };
    let header = if api == Api::Messages { KeyHeader::ApiKey } else { KeyHeader::Bearer };
    let fixed: &[(&str, &str)] = if api == Api::Messages { &[("anthropic-version", "2023-06-01")] } else { &[] };
    let headers = setup
        .headers
        .iter()
        .map(|(name, value)| Ok((name.to_ascii_lowercase(), fill(value, &variable)?)))
        .collect::<Result<Vec<_>, String>>()?;
    let endpoint = Endpoint::new(url, key.map(|key| (key, header)), fixed, &headers)?;
    Ok(Provider {
        description: Description {
            name: setup.name.clone(),
            provider: provider.to_owned(),
            model: model.to_owned(),
            context_window: setup.context_window,
            max_output_tokens: setup.max_output_tokens,
            address: endpoint.address(),
        },
        api,
        options: Options {
            provider: provider.to_owned(),
            model: model.to_owned(),
            official,
            no_user_after_results: mistral,
            max_output_tokens: setup.max_output_tokens,
            body: setup.body.clone(),
        },
        endpoint,
    })
}

/// `my-server` becomes `MY_SERVER`.
fn variables(provider: &str) -> String {
    provider
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' })
        .collect()
}

/// Replaces `${env.NAME}`.
fn fill(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let bad = || format!("`{text}`: only `${{env.NAME}}` is replaced here");
        let end = rest[start..].find('}').map(|end| start + end).ok_or_else(bad)?;
        let name = rest[start + 2..end].trim().strip_prefix("env.").ok_or_else(bad)?;
        filled.push_str(&rest[..start]);
        filled.push_str(&variable(name).ok_or_else(|| format!("set {name}, which `{text}` needs"))?);
        rest = &rest[end + 1..];
    }
    filled.push_str(rest);
    Ok(filled)
}

/// The address of requests. A base with or without the version, or the whole address, is the same.
fn endpoint(address: &str, api: Api) -> Result<Url, String> {
    let bad = |why: &str| format!("`base_url` {address} can't be used: {why}");
    let mut url = Url::parse(address).map_err(|error| bad(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(bad("it must begin with http:// or https://"));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    let end = match api {
        Api::Chat => "/chat/completions",
        Api::Responses => "/responses",
        Api::Messages if path.ends_with("/v1") => "/messages",
        Api::Messages => "/v1/messages",
    };
    let last = end.rsplit_once("/v1").map_or(end, |(_, last)| last);
    if !path.ends_with(last) {
        url.set_path(&format!("{path}{end}"));
    }
    Ok(url)
}

fn is_usual(url: &Url, known: Option<&Known>) -> bool {
    known.and_then(|known| Url::parse(known.base).ok()).is_some_and(|usual| usual.origin() == url.origin())
}

#[cfg(test)]
mod tests;
