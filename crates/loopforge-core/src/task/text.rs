//! Bytes that should be text.

use super::problem::{Finding, Problem, ProblemCode, Source};

/// `bytes` as text.
///
/// # Errors
/// A problem at the first byte that is no UTF-8.
pub(super) fn utf8<'b>(bytes: &'b [u8], origin: &str) -> Result<&'b str, Box<Problem>> {
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let valid = String::from_utf8_lossy(&bytes[..at]);
        let found = bytes.get(at).map_or(String::new(), |byte| format!(" (0x{byte:02x})"));
        let remedy = match bytes {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "the file is UTF-16: save it as UTF-8",
            _ => "save it as UTF-8",
        };
        let finding = Finding::new(ProblemCode::NotText, format!("not UTF-8 at byte {at}{found}")).remedy(remedy);
        // The text ends where the mistake is, so that the place is the end of what could be read.
        let source = Source::new(origin, &valid);
        let end = source.text().len();
        Box::new(source.problem(end..end, String::new(), finding))
    })
}

/// Refuses a text with a NUL character, which stores and terminals can't carry.
///
/// # Errors
/// A problem at the first one.
pub(super) fn without_nul(source: &Source<'_>) -> Result<(), Box<Problem>> {
    match source.text().find('\0') {
        None => Ok(()),
        Some(at) => {
            let finding = Finding::new(ProblemCode::NotText, format!("a NUL character at byte {}", source.in_file(at)))
                .remedy("save it as UTF-8 text (UTF-16 looks like this)");
            Err(Box::new(source.problem(at..at + 1, String::new(), finding)))
        }
    }
}
