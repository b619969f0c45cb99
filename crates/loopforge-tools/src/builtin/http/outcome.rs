//! From an answer to a result: the one table of status codes.

use loopforge_core::json::Json;
use loopforge_core::tool::{Code, ToolResult};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, ETAG, LAST_MODIFIED, LOCATION};
use serde_json::{Map, json};

use super::exchange::Answer;
use super::wait;
use crate::builtin::text;

/// What is shown of the body of a refusal.
const SHOWN_CHARACTERS: usize = 2000;

/// Turns an answer into a result.
///
/// | Status | Code |
/// |---|---|
/// | 2xx, 303 to a write, 304 | success |
/// | 404, 410 | not found |
/// | 401, 403, 407 | unauthorized |
/// | 429 | rate limited, with the wait that was asked for |
/// | 408, 425, 5xx | unavailable, with the wait that was asked for |
/// | all others | permanent |
pub(super) fn result(answer: Answer) -> ToolResult {
    let code = code_of(answer.status);
    if code == Code::Success { success(answer) } else { refusal(answer, code) }
}

fn code_of(status: StatusCode) -> Code {
    match status.as_u16() {
        // A write that is answered with 303 was done; the answer to look at is elsewhere (RFC 9110 §15.4.4).
        200..=299 | 303 | 304 => Code::Success,
        401 | 403 | 407 => Code::Unauthorized,
        404 | 410 => Code::NotFound,
        408 | 425 | 500..=599 => Code::Unavailable,
        429 => Code::RateLimited,
        _ => Code::Permanent,
    }
}

fn success(answer: Answer) -> ToolResult {
    let content_type = answer.header(&CONTENT_TYPE).map(str::to_owned);
    let mut data = Map::new();
    data.insert("status".to_owned(), json!(answer.status.as_u16()));
    data.insert("url".to_owned(), json!(answer.url.as_str()));
    data.insert("content_type".to_owned(), json!(content_type));
    for (key, name) in [("etag", ETAG), ("last_modified", LAST_MODIFIED), ("location", LOCATION)] {
        if let Some(text) = answer.header(&name) {
            data.insert(key.to_owned(), json!(text));
        }
    }
    let bytes = answer.body.len();
    let read = text::read(answer.body, content_type.as_deref(), answer.truncated);
    data.insert("charset".to_owned(), json!(read.charset));
    data.insert("bytes".to_owned(), json!(bytes));
    data.insert("truncated".to_owned(), json!(answer.truncated));
    data.insert("binary".to_owned(), json!(read.binary));
    data.insert("body".to_owned(), Json::String(read.text));
    let mut result = ToolResult::success(Json::Object(data));
    result.marks = read.marks;
    result.raw = read.raw;
    if answer.truncated {
        result.marks.push(format!("cut at {bytes} bytes: the body is longer (raise `max_bytes` to get more)"));
    }
    if bytes == 0 {
        result.meaning_of_empty = Some(match answer.status {
            StatusCode::NOT_MODIFIED => "not modified since the version that the request named".to_owned(),
            status => format!("the server answered {status} without a body"),
        });
    }
    result
}

fn refusal(mut answer: Answer, code: Code) -> ToolResult {
    let read = text::read(std::mem::take(&mut answer.body), None, true);
    let status = answer.status;
    let remedy = match code {
        Code::Unauthorized => ": check the credentials that the task sends",
        Code::NotFound => ": check the address",
        _ => "",
    };
    let moved = answer.headers.get(LOCATION).filter(|_| status.is_redirection());
    let error = match moved {
        Some(location) => {
            let location = String::from_utf8_lossy(location.as_bytes());
            format!("{} answered {status}: it moved to {location}; call that address instead", answer.url)
        }
        None => format!("{} answered {status}{remedy}", answer.url),
    };
    let shown: String = read.text.chars().take(SHOWN_CHARACTERS).collect();
    let asked = match code {
        Code::RateLimited | Code::Unavailable => wait::asked(&answer.headers, &read.text, jiff::Timestamp::now()),
        _ => None,
    };
    let mut result = ToolResult::failure(code, error).retry_after(asked);
    result.data = json!({ "status": status.as_u16(), "url": answer.url.as_str(), "body": shown });
    result
}
