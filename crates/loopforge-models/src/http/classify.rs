//! What an error of a provider means for the caller.
//!
//! Codes win over words: they are checked first, then the status, and the words of a message only where neither decides. The words are
//! those of providers' own messages, since several give everything as a plain 400.

use loopforge_core::json::Json;
use loopforge_core::model::{ErrorKind, ModelError};

/// The most of a provider's message that an error repeats, in characters.
const SHOWN: usize = 600;

/// What an error body says, whatever its shape.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Codes and types, the most exact one first, in lower case.
    pub(crate) codes: Vec<String>,
    /// The sentence; never longer than a screen.
    pub(crate) message: String,
    /// A status in the body: gateways put that of the server behind them there.
    pub(crate) status: Option<u16>,
}

impl Said {
    /// Reads a body.
    pub(crate) fn read(body: &str) -> Self {
        match serde_json::from_str::<Json>(body) {
            Ok(json) => Self::from_json(&json),
            Err(_) => Self { message: shorten(&plain(body)), ..Self::default() },
        }
    }

    /// Reads an error as JSON: `{"error": {...}}`, `{"error": "..."}`, `{"message": ...}`, `{"detail": ...}`, a list of one.
    pub(crate) fn from_json(json: &Json) -> Self {
        let json = json.as_array().and_then(|items| items.first()).unwrap_or(json);
        let inner = match json.get("error") {
            Some(error @ (Json::Object(_) | Json::String(_))) => error,
            _ => json,
        };
        let mut said = Self::default();
        if let Json::String(text) = inner {
            said.message = shorten(&plain(text));
            said.add_codes(json);
            return said;
        }
        said.add_codes(inner);
        if let Some(details) = inner.get("details").and_then(Json::as_array) {
            details.iter().for_each(|detail| said.add_codes(detail));
        }
        let message = ["message", "detail", "error_description", "msg", "error"]
            .iter()
            .find_map(|key| inner.get(*key))
            .map(|message| message.as_str().map_or_else(|| message.to_string(), str::to_owned));
        // Gateways put the words of the server behind them into a member of their own.
        let raw = inner.pointer("/metadata/raw").and_then(Json::as_str);
        let message = [message.as_deref(), raw].into_iter().flatten().collect::<Vec<_>>().join(": ");
        said.message = shorten(&plain(&message));
        said
    }

    fn add_codes(&mut self, json: &Json) {
        for key in ["code", "reason", "type", "status"] {
            match json.get(key) {
                Some(Json::String(code)) => {
                    if let Ok(status) = code.parse() {
                        self.set_status(status);
                    } else if code != "error" {
                        self.codes.push(code.to_ascii_lowercase());
                    }
                }
                Some(Json::Number(number)) => {
                    if let Some(status) = number.as_u64().and_then(|number| u16::try_from(number).ok()) {
                        self.set_status(status);
                    }
                }
                _ => {}
            }
        }
    }

    fn set_status(&mut self, status: u16) {
        if (400..600).contains(&status) {
            self.status.get_or_insert(status);
        }
    }
}

/// The error of an answer with `status`, which is a failure by itself, or 200 for an error in a stream.
pub(crate) fn error(status: u16, said: &Said, wait: Option<std::time::Duration>) -> ModelError {
    let effective = if status < 400 { said.status.unwrap_or(status) } else { status };
    let kind = kind(effective, said, wait.is_some());
    let words = match (said.message.is_empty(), said.codes.first()) {
        (false, _) => said.message.clone(),
        (true, Some(code)) => code.clone(),
        (true, None) => "it gave no reason".to_owned(),
    };
    let message = match kind {
        _ if (300..400).contains(&status) => {
            format!("the address leads elsewhere (status {status}), and keys are not sent there: correct `base_url`")
        }
        ErrorKind::RateLimited => format!("the provider asks to slow down: {words}"),
        ErrorKind::Overloaded => format!("the provider has no room now: {words}"),
        ErrorKind::Unavailable | ErrorKind::TimedOut => format!("the provider failed (status {effective}): {words}"),
        ErrorKind::ContextTooLong => format!("the prompt is too long for the model: {words}"),
        ErrorKind::QuotaExhausted => format!("the account has nothing left: {words}"),
        ErrorKind::NoSuchModel => format!("the provider has no such model, or `base_url` is wrong: {words}"),
        ErrorKind::Refused => format!("the provider refuses the content: {words}"),
        _ => format!("the provider refuses the request (status {effective}): {words}"),
    };
    let mut error = ModelError::new(kind, message).retry_after(wait).status(status);
    error.code = said.codes.first().cloned();
    error
}

/// Whether a provider named a lasting reason for refusing the key, so that it isn't a gateway's passing trouble.
pub(crate) fn key_is_dead(said: &Said) -> bool {
    said.codes.iter().any(|code| DEAD_KEY.contains(&code.as_str()))
        || has(&said.message, &["expired", "revoked", "deactivated"])
}

const DEAD_KEY: &[&str] = &[
    "invalid_api_key",
    "api_key_invalid",
    "incorrect_api_key",
    "invalid_api_key_error",
    "account_deactivated",
    "permission_error",
    "permission_denied",
    "access_denied",
];

const FAILED: &[&str] =
    &["server_error", "api_error", "internal_error", "internal_server_error", "network_error", "bad_gateway"];

fn kind(status: u16, said: &Said, has_wait: bool) -> ErrorKind {
    let words = said.message.to_lowercase();
    for code in &said.codes {
        if let Some(kind) = by_code(code, &words) {
            return kind;
        }
    }
    // Of codes that say no more than "failed", the status may say more.
    if status < 500 && said.codes.iter().any(|code| FAILED.contains(&code.as_str())) {
        return if is_overflow(&words) { ErrorKind::ContextTooLong } else { ErrorKind::Unavailable };
    }
    match status {
        300..400 => ErrorKind::InvalidRequest,
        401 => ErrorKind::Unauthorized,
        402 => ErrorKind::QuotaExhausted,
        403 if has(&words, &["moderation", "flagged", "content policy"]) => ErrorKind::Refused,
        403 if is_empty_account(&words) => ErrorKind::QuotaExhausted,
        403 => ErrorKind::Unauthorized,
        408 => ErrorKind::TimedOut,
        413 => ErrorKind::ContextTooLong,
        429 if never_fits(&words) => ErrorKind::ContextTooLong,
        // Without a wait it is the account, with one it is the minute: the words are the same.
        429 if !has_wait && is_empty_account(&words) => ErrorKind::QuotaExhausted,
        429 => ErrorKind::RateLimited,
        498 | 503 | 529 if !is_overflow(&words) => ErrorKind::Overloaded,
        _ if is_overflow(&words) => ErrorKind::ContextTooLong,
        404 => ErrorKind::NoSuchModel,
        409 | 425 => ErrorKind::Unavailable,
        400..500 if is_dead_key(&words) => ErrorKind::Unauthorized,
        400..500 if is_empty_account(&words) => ErrorKind::QuotaExhausted,
        400..500
            if has(&words, &["content management policy", "content policy", "content_filter", "safety system"]) =>
        {
            ErrorKind::Refused
        }
        400..500 => ErrorKind::InvalidRequest,
        _ if has(&words, &["overloaded", "no capacity", "at capacity"]) => ErrorKind::Overloaded,
        _ if has(&words, &["rate limit", "too many requests"]) => ErrorKind::RateLimited,
        _ => ErrorKind::Unavailable,
    }
}

/// By a code that says it all. `words` decides only where providers use one code for two things.
fn by_code(code: &str, words: &str) -> Option<ErrorKind> {
    Some(match code {
        "insufficient_quota"
        | "billing_hard_limit_reached"
        | "billing_not_active"
        | "billing_error"
        | "insufficient_balance"
        | "insufficient_credits"
        | "quota_exceeded"
        | "arrearage"
        | "exceeded_current_quota_error"
        | "credit_limit_reached" => ErrorKind::QuotaExhausted,
        "context_length_exceeded"
        | "exceed_context_size_error"
        | "context_window_exceeded"
        | "request_too_large"
        | "model_max_prompt_tokens_exceeded"
        | "string_above_max_length"
        | "contextwindowexceedederror" => ErrorKind::ContextTooLong,
        "authentication_error"
        | "permission_error"
        | "permission_denied"
        | "unauthenticated"
        | "unauthorized"
        | "access_denied"
        | "account_deactivated"
        | "invalid_authentication_error"
        | "incorrect_api_key" => ErrorKind::Unauthorized,
        _ if DEAD_KEY.contains(&code) => ErrorKind::Unauthorized,
        "model_not_found" | "model_not_available" | "not_found_error" | "unknown_model" | "model_not_exist" => {
            ErrorKind::NoSuchModel
        }
        "content_filter"
        | "content_policy_violation"
        | "responsibleaipolicyviolation"
        | "data_inspection_failed"
        | "sensitive"
        | "invalid_prompt"
        | "cyber_policy_violation" => ErrorKind::Refused,
        "rate_limit_exceeded"
        | "rate_limit_error"
        | "rate_limit_reached_error"
        | "too_many_requests"
        | "throttling_error"
        | "throttlingexception"
        | "requests"
        | "tokens" => {
            if never_fits(words) {
                ErrorKind::ContextTooLong
            } else {
                ErrorKind::RateLimited
            }
        }
        "overloaded_error"
        | "engine_overloaded"
        | "engine_overloaded_error"
        | "server_overloaded"
        | "slow_down"
        | "service_unavailable"
        | "service_unavailable_error"
        | "unavailable"
        | "insufficient_system_resource" => ErrorKind::Overloaded,
        "timeout_error" => ErrorKind::TimedOut,
        _ => return None,
    })
}

fn has(text: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| text.contains(part))
}

fn is_empty_account(words: &str) -> bool {
    has(
        words,
        &[
            "credit balance is too low",
            "insufficient balance",
            "insufficient credit",
            "insufficient quota",
            "exceeded your current quota",
            "billing hard limit",
            "out of credits",
            "requires more credits",
            "payment required",
            "余额不足",
        ],
    )
}

fn is_dead_key(words: &str) -> bool {
    has(words, &["api key", "api_key", "apikey", "access token", "token is"])
        && has(words, &["expired", "invalid", "not valid", "incorrect", "revoked"])
}

/// A request that no wait makes small enough for the limit per minute.
fn never_fits(words: &str) -> bool {
    has(words, &["request too large", "must be reduced in order to run"])
}

/// Whether a message says that the prompt doesn't fit into the window.
///
/// Each pair: all of these must stand in it. Words alone aren't enough: "tokens" is in many other messages.
pub(crate) fn is_overflow(words: &str) -> bool {
    const SAYINGS: &[&[&str]] = &[
        &["maximum context length"],
        &["max context length"],
        &["context length of"],
        &["context_length_exceeded"],
        &["context window", "exceed"],
        &["context window", "too"],
        &["context window", "overflow"],
        &["context size", "exceed"],
        &["context length", "exceed"],
        &["context limit", "exceed"],
        &["exceed", "maximum prompt length"],
        &["maximum prompt length is"],
        &["prompt is too long"],
        &["prompt too long"],
        &["prompt", "too long to fit"],
        &["prompt", "longer than the maximum model length"],
        &["prompt exceeds max length"],
        &["prompt token count", "exceeds"],
        &["prompt contains", "tokens", "too large"],
        &["input is too long"],
        &["input too long"],
        &["input length", "exceed"],
        &["input token", "exceed"],
        &["input tokens exceed"],
        &["too many input tokens"],
        &["too many tokens", "prompt"],
        &["total number of tokens", "exceed"],
        &["range of input length should be"],
        &["exceeded model token limit"],
        &["inputs` tokens + `max_new_tokens`", "must be"],
        &["reduce the length of the messages"],
        &["reduce the length of your prompt"],
        &["exceeds the available context"],
        &["larger than the model's context"],
        &["上下文", "超"],
        &["输入长度", "超"],
        &["输入", "过长"],
    ];
    SAYINGS.iter().any(|parts| parts.iter().all(|part| words.contains(part)))
}

/// Text in one line. A page of HTML is named by its title.
fn plain(text: &str) -> String {
    let start = text.trim_start();
    if start.starts_with('<') {
        let lower = start.to_ascii_lowercase();
        let title = lower.find("<title>").map(|from| from + 7).and_then(|from| {
            let length = lower[from..].find("</title>")?;
            start.get(from..from + length)
        });
        return match title.map(str::trim).filter(|title| !title.is_empty()) {
            Some(title) => format!("a page of HTML, \"{title}\""),
            None => "a page of HTML".to_owned(),
        };
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('\0', "\u{2400}")
}

/// A bounded part of a text from outside.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn of(status: u16, body: &str) -> ModelError {
        error(status, &Said::read(body), None)
    }

    /// RTY-05
    #[test]
    fn overflow_is_recognised_in_the_words_of_every_provider() {
        for (status, body) in [
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 8000 tokens. However, your messages resulted in 9001 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            ),
            (
                400,
                r#"{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error"}}"#,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 204001 tokens > 200000 maximum"}}"#,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"}}"#,
            ),
            (
                413,
                r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
            ),
            (
                400,
                r#"[{"error":{"code":400,"message":"The input token count (1050001) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]"#,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"the request exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error"}}"#,
            ),
            (
                400,
                r#"{"object":"error","message":"The decoder prompt (length 5000) is longer than the maximum model length of 4096.","code":400}"#,
            ),
            (400, r#"{"message":"Prompt contains 40001 tokens, too large for model with 32768 maximum"}"#),
            (
                400,
                r#"{"error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}"#,
            ),
            (
                422,
                r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000"}"#,
            ),
            (
                400,
                r#"{"error":{"message":"Range of input length should be [1, 30720]","code":"invalid_parameter_error"}}"#,
            ),
            (
                400,
                r#"{"error":{"message":"Invalid request: Your request exceeded model token limit: 8192","type":"invalid_request_error"}}"#,
            ),
            (500, r#"{"error":{"message":"input is too long for requested model","type":"server_error"}}"#),
            (400, r#"{"error":{"message":"输入长度超过模型上下文限制"}}"#),
            (413, "Payload Too Large"),
            (
                429,
                r#"{"error":{"message":"Request too large for some-model on tokens per min (TPM): Limit 30000, Requested 50000. The input or output tokens must be reduced in order to run successfully.","type":"tokens","code":"rate_limit_exceeded"}}"#,
            ),
            // As an event in a stream.
            (200, r#"{"error":{"message":"context window exceeded","code":"context_length_exceeded"}}"#),
            (
                200,
                r#"{"error":{"code":400,"message":"This endpoint's maximum context length is 4096 tokens. You requested 9000."}}"#,
            ),
        ] {
            assert_eq!(of(status, body).kind, ErrorKind::ContextTooLong, "{status} {body}");
        }
    }

    /// RTY-05
    #[test]
    fn other_errors_that_speak_of_tokens_are_no_overflow() {
        for (status, body, kind) in [
            (
                400,
                r#"{"error":{"message":"max_tokens is too large: 200000. This model supports at most 16384 completion tokens.","type":"invalid_request_error"}}"#,
                ErrorKind::InvalidRequest,
            ),
            (
                400,
                r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","code":"unsupported_parameter"}}"#,
                ErrorKind::InvalidRequest,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"`max_tokens` must be greater than `thinking.budget_tokens`"}}"#,
                ErrorKind::InvalidRequest,
            ),
            (
                429,
                r#"{"error":{"message":"Rate limit reached for tokens per min (TPM): Limit 30000, Used 29000","code":"rate_limit_exceeded"}}"#,
                ErrorKind::RateLimited,
            ),
            (401, r#"{"error":{"message":"Invalid access token, or it is too long"}}"#, ErrorKind::Unauthorized),
        ] {
            assert_eq!(of(status, body).kind, kind, "{status} {body}");
        }
    }

    /// RTY-03, RTY-06
    #[test]
    fn errors_that_cannot_heal_are_told_apart_and_codes_win_over_words() {
        for (status, body, kind) in [
            (
                401,
                r#"{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}"#,
                ErrorKind::Unauthorized,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"API key expired. Please renew the API key.","status":"INVALID_ARGUMENT"}}"#,
                ErrorKind::Unauthorized,
            ),
            (
                400,
                r#"{"error":{"message":"bad","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#,
                ErrorKind::Unauthorized,
            ),
            (
                403,
                r#"{"error":{"message":"your subscription quota is exceeded","code":"invalid_api_key"}}"#,
                ErrorKind::Unauthorized,
            ),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","code":"insufficient_quota"}}"#,
                ErrorKind::QuotaExhausted,
            ),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota, please check your plan."}}"#,
                ErrorKind::QuotaExhausted,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}"#,
                ErrorKind::QuotaExhausted,
            ),
            (402, r#"{"error":{"message":"Insufficient Balance"}}"#, ErrorKind::QuotaExhausted),
            (403, "Forbidden", ErrorKind::Unauthorized),
            (
                403,
                r#"{"error":{"code":403,"message":"Your chosen model requires moderation and your input was flagged"}}"#,
                ErrorKind::Refused,
            ),
            (
                404,
                r#"{"error":{"message":"The model `x` does not exist","code":"model_not_found"}}"#,
                ErrorKind::NoSuchModel,
            ),
            (404, "404 page not found", ErrorKind::NoSuchModel),
            (400, r#"{"error":{"message":"The response was filtered","code":"content_filter"}}"#, ErrorKind::Refused),
            (422, r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#, ErrorKind::InvalidRequest),
            (307, "", ErrorKind::InvalidRequest),
        ] {
            let error = of(status, body);
            assert_eq!(error.kind, kind, "{status} {body}");
            assert!(!error.is_transient(), "{status} {body}");
        }
        let minute = Said::read(r#"{"error":{"message":"You exceeded your current quota"}}"#);
        assert_eq!(error(429, &minute, Some(Duration::from_secs(7))).kind, ErrorKind::RateLimited);
    }

    /// RTY-06
    #[test]
    fn only_a_401_without_a_lasting_reason_may_pass() {
        let dead = |body: &str| key_is_dead(&Said::read(body));
        assert!(dead(r#"{"error":{"code":"invalid_api_key","message":"no"}}"#));
        assert!(dead(r#"{"error":{"message":"the key expired"}}"#));
        assert!(!dead(r#"{"error":{"message":"upstream authentication failed"}}"#));
        assert!(!dead("Unauthorized"));
    }

    /// LLM-11
    #[test]
    fn errors_that_pass_are_transient_also_in_a_stream() {
        for (status, body, kind) in [
            (
                200,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                ErrorKind::Overloaded,
            ),
            (200, r#"{"error":{"code":502,"message":"Bad gateway"}}"#, ErrorKind::Unavailable),
            (200, r#"{"error":{"code":"429","message":"slow"}}"#, ErrorKind::RateLimited),
            (200, r#"{"error":"something broke"}"#, ErrorKind::Unavailable),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                ErrorKind::Overloaded,
            ),
            (503, "<html><head><title>Service Unavailable</title></head></html>", ErrorKind::Overloaded),
            (502, "<html><title>502 Bad Gateway</title></html>", ErrorKind::Unavailable),
            (500, r#"{"error":{"message":"The server had an error","type":"server_error"}}"#, ErrorKind::Unavailable),
            (529, r#"{"error":{"message":"Service overloaded.","type":"server_error"}}"#, ErrorKind::Overloaded),
            (200, r#"{"error":{"message":"no","type":"server_error"}}"#, ErrorKind::Unavailable),
            (524, "", ErrorKind::Unavailable),
            (408, "", ErrorKind::TimedOut),
        ] {
            let error = of(status, body);
            assert_eq!(error.kind, kind, "{status} {body}");
            assert!(error.is_transient());
        }
        assert!(of(503, "<html><title>Gone fishing</title>").message.contains("\"Gone fishing\""));
    }

    #[test]
    fn what_a_server_says_is_bounded() {
        let error = of(400, &"价".repeat(10_000));
        assert!(error.message.chars().count() < 700);
    }
}
