//! What a command printed, and how it ended, as the one result shape of all tools.

use std::time::Duration;

use loopforge_core::json::{Json, clean, clean_text, lenient};
use loopforge_core::payload::{Blob, BlobKind};
use loopforge_core::tool::{Code, Effect, ToolResult};
use serde::Deserialize;
use serde_json::json;

/// Standard output, read.
#[derive(Debug)]
pub(super) struct Output {
    /// The document that it is, or `{ "text": ... }`, or `null` for nothing.
    data: Json,
    /// Whether it is a JSON document.
    is_json: bool,
    /// What was changed on the way in.
    marks: Vec<String>,
    /// The bytes, where `data` doesn't tell them exactly.
    raw: Option<Blob>,
}

impl Output {
    /// Reads the whole of standard output as one JSON document, or else as text.
    pub(super) fn read(bytes: Vec<u8>) -> Self {
        let mut marks = Vec::new();
        let text = String::from_utf8_lossy(&bytes);
        let binary = matches!(text, std::borrow::Cow::Owned(_));
        if binary {
            marks.push(format!(
                "output is not UTF-8: what can't be read is shown as U+FFFD ({} bytes in all)",
                bytes.len()
            ));
        }
        let document = text.trim_start_matches('\u{FEFF}').trim();
        let (mut data, is_json) = match read_document(document) {
            Ok(Some((value, replaced))) => {
                marks.extend(replaced.marks());
                (value, true)
            }
            Ok(None) => (Json::Null, false),
            Err(broken) => {
                marks.extend(broken);
                let mut data = json!({ "text": text.as_ref() });
                if binary {
                    data["binary"] = true.into();
                    data["bytes"] = bytes.len().into();
                }
                (data, false)
            }
        };
        let nul = clean(&mut data).nul;
        if nul > 0 {
            marks.push(format!("{nul} × NUL character replaced by U+2400"));
        }
        drop(text);
        let raw = (!marks.is_empty()).then(|| Blob::new(if binary { BlobKind::Bytes } else { BlobKind::Text }, bytes));
        Self { data, is_json, marks, raw }
    }

    /// The result of a command that ended by itself.
    pub(super) fn into_result(self, exit_code: i32, stderr: &str, effect: Effect) -> ToolResult {
        let mut result = match self.stated_result() {
            Some(Ok(stated)) if exit_code == 0 || stated.code != Code::Success => stated,
            Some(Err(problem)) if exit_code == 0 => ToolResult::failure(Code::MalformedOutput, problem),
            _ if exit_code == 0 => ToolResult::success(self.data),
            _ => {
                let (code, meaning) = classify(exit_code, effect);
                let mut failure = ToolResult::failure(code, describe(meaning, stderr));
                failure.data = self.data;
                if exit_code == EX_TEMPFAIL { failure.not_sent() } else { failure }
            }
        };
        result.marks = self.marks;
        result.raw = self.raw;
        result
    }

    /// What the command says itself, if it speaks in the shape of results.
    fn stated_result(&self) -> Option<Result<ToolResult, String>> {
        const KEYS: [&str; 6] = ["ok", "code", "data", "error", "retry_after_s", "meaning_of_empty"];
        let object = self.data.as_object().filter(|_| self.is_json)?;
        if !object.get("ok")?.is_boolean() || object.keys().any(|key| !KEYS.contains(&key.as_str())) {
            return None;
        }
        Some(match Stated::deserialize(&self.data) {
            Ok(stated) => stated.into_result(),
            Err(error) => Err(format!("the command's result has not the promised shape: {error}")),
        })
    }

    /// What the command says of an earlier effect: `{ "happened": bool, "result": ... }`, bare or in a result.
    pub(super) fn happened(result: &ToolResult) -> Option<Result<Json, ()>> {
        match result.data.get("happened")?.as_bool()? {
            true => Some(Ok(result.data.get("result").cloned().unwrap_or_default())),
            false => Some(Err(())),
        }
    }
}

type Document = (Json, lenient::Replaced);

/// `Ok(None)` is an empty text, an error is text that is no JSON; it brings a mark where the text begins like JSON.
fn read_document(text: &str) -> Result<Option<Document>, Option<String>> {
    if text.is_empty() {
        return Ok(None);
    }
    if text.starts_with(['{', '[']) {
        return lenient::read(text)
            .map(Some)
            .map_err(|error| Some(format!("output begins like JSON but is none, and is kept as text: {error}")));
    }
    // A single value: only what is plainly JSON. `NaN` alone, or twenty digits, is as likely just text.
    match lenient::read(text) {
        Ok((value, replaced)) if replaced == lenient::Replaced::default() => Ok(Some((value, replaced))),
        Ok((value @ Json::String(_), replaced)) if text.starts_with('"') => Ok(Some((value, replaced))),
        _ => Err(None),
    }
}

/// The shape of results, as a command writes it.
#[derive(Debug, Deserialize)]
struct Stated {
    ok: bool,
    #[serde(default)]
    code: Option<StatedCode>,
    #[serde(default)]
    data: Json,
    #[serde(default)]
    error: Option<Json>,
    #[serde(default)]
    retry_after_s: Option<f64>,
    #[serde(default)]
    meaning_of_empty: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum StatedCode {
    Name(Code),
    Number(u8),
    Other(Json),
}

impl Stated {
    fn into_result(self) -> Result<ToolResult, String> {
        let code = match self.code {
            None if self.ok => Code::Success,
            None => Code::Permanent,
            Some(StatedCode::Name(code)) => code,
            Some(StatedCode::Number(number)) => {
                by_number(number).ok_or(format!("the command states the unknown code {number}"))?
            }
            Some(StatedCode::Other(other)) => return Err(format!("the command states the unknown code {other}")),
        };
        if self.ok != (code == Code::Success) {
            return Err(format!("the command contradicts itself: `ok` is {} and `code` is `{code}`", self.ok));
        }
        let mut result = if self.ok {
            ToolResult::success(self.data)
        } else {
            let error = match self.error {
                Some(Json::String(text)) => text,
                Some(Json::Null) | None => "the command gives no reason".to_owned(),
                Some(other) => other.to_string(),
            };
            ToolResult { data: self.data, ..ToolResult::failure(code, error) }
        };
        result.meaning_of_empty = self.meaning_of_empty;
        result.retry_after = self.retry_after_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Ok(result)
    }
}

fn by_number(number: u8) -> Option<Code> {
    const CODES: [Code; 14] = [
        Code::Success,
        Code::InvalidArgument,
        Code::NotFound,
        Code::Timeout,
        Code::RateLimited,
        Code::Unavailable,
        Code::Unauthorized,
        Code::Permanent,
        Code::InsufficientInformation,
        Code::Refused,
        Code::Cancelled,
        Code::MalformedOutput,
        Code::Unknown,
        Code::Internal,
    ];
    CODES.into_iter().find(|code| *code as u8 == number)
}

/// The command's own word that it did nothing yet and wants to be called again. Source: sysexits.h.
const EX_TEMPFAIL: i32 = 75;

/// What an exit code other than 0 means.
///
/// Any other code says that something went wrong, but not where: Python exits with 1 when a script crashes half-way. Of a
/// write it can't be concluded then that nothing was changed.
///
/// Source: sysexits.h (64 to 78), POSIX shell (126, 127).
fn classify(exit_code: i32, effect: Effect) -> (Code, String) {
    let (code, meaning) = match exit_code {
        64 => (Code::InvalidArgument, "used wrongly"),
        65 => (Code::InvalidArgument, "data error"),
        66 => (Code::NotFound, "input not found"),
        68 => (Code::NotFound, "host not found"),
        69 => (Code::Unavailable, "service unavailable"),
        EX_TEMPFAIL => (Code::Unavailable, "temporary failure"),
        76 => (Code::MalformedOutput, "protocol error"),
        77 => (Code::Unauthorized, "no permission"),
        70 => (Code::Internal, "internal software error"),
        71 => (Code::Internal, "operating system error"),
        126 => (Code::Internal, "a program in it could not be executed"),
        127 => (Code::Internal, "a program in it was not found"),
        _ if effect == Effect::Write => (Code::Unknown, "it doesn't say whether it changed something"),
        _ => (Code::Permanent, ""),
    };
    let separator = if meaning.is_empty() { "" } else { ": " };
    (code, format!("the command exited with code {exit_code}{separator}{meaning}"))
}

/// A failure's text: what happened, then the end of what the command wrote to standard error.
pub(super) fn describe(what: impl Into<String>, stderr: &str) -> String {
    let mut text = what.into();
    let stderr = stderr.trim();
    if !stderr.is_empty() {
        text.push_str("; stderr: ");
        text.push_str(stderr);
    }
    text
}

/// The last bytes of standard error as clean text.
pub(super) fn stderr_text(bytes: &[u8], cut: bool) -> String {
    let mut bytes = bytes;
    if cut {
        // Not from the middle of a character: continuation bytes go.
        let broken = bytes.iter().take(3).take_while(|byte| (**byte & 0xC0) == 0x80).count();
        bytes = &bytes[broken..];
    }
    let (text, _) = clean_text(String::from_utf8_lossy(bytes).into_owned());
    if cut { format!("[...] {text}") } else { text }
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
