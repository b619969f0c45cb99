//! Bytes as text: decoded by its charset, cleaned, and with the bytes kept where the text isn't exact.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8};
use loopforge_core::json::clean_text;
use loopforge_core::payload::{Blob, BlobKind};

/// Where a page names its own encoding: HTML asks for it within the first 1024 bytes.
const META_WINDOW: usize = 1024;

/// A document as it is handed on.
#[derive(Debug)]
pub(super) struct Document {
    /// The text, or a short description where there is none.
    pub text: String,
    /// The encoding's name in lower case; `None` for bytes that are no text.
    pub charset: Option<String>,
    /// Whether the bytes are no text.
    pub binary: bool,
    /// What was changed on the way in.
    pub marks: Vec<String>,
    /// The bytes, where `text` doesn't hold them exactly.
    pub raw: Option<Blob>,
}

/// Reads `bytes`. `cut` says that the end is missing, so that half a character there is no fault of the page.
pub(super) fn read(bytes: Vec<u8>, content_type: Option<&str>, cut: bool) -> Document {
    let (encoding, guessed) = encoding_of(&bytes, content_type);
    let without_bom = match Encoding::for_bom(&bytes) {
        Some((_, length)) => &bytes[length..],
        None => &bytes[..],
    };
    let (text, replaced) = decode(encoding, without_bom, cut);
    if is_binary(&text, replaced, content_type) {
        return binary(bytes, content_type);
    }
    let (text, cleaned) = clean_text(text);
    let mut marks = Vec::new();
    let charset = encoding.name().to_ascii_lowercase();
    if guessed {
        marks.push(format!("the page names no encoding: read as {charset}"));
    }
    if replaced {
        marks.push(format!("bytes that are no {charset} replaced by \u{fffd}"));
    }
    if cleaned.nul > 0 {
        marks.push(format!("{} NUL characters replaced by \u{2400}", cleaned.nul));
    }
    let exact = !replaced && cleaned.nul == 0;
    let raw = (!exact).then(|| Blob::new(BlobKind::Bytes, bytes));
    Document { text, charset: Some(charset), binary: false, marks, raw }
}

/// The text, and whether something had to be replaced. Half a character where the body was cut is left out.
fn decode(encoding: &'static Encoding, bytes: &[u8], cut: bool) -> (String, bool) {
    if !cut {
        let (text, replaced) = encoding.decode_without_bom_handling(bytes);
        return (text.into_owned(), replaced);
    }
    let mut decoder = encoding.new_decoder_without_bom_handling();
    let mut text = String::with_capacity(decoder.max_utf8_buffer_length(bytes.len()).unwrap_or(0));
    let (_, _, replaced) = decoder.decode_to_string(bytes, &mut text, false);
    text.shrink_to_fit();
    (text, replaced)
}

fn binary(bytes: Vec<u8>, content_type: Option<&str>) -> Document {
    let kind = content_type.unwrap_or("no content type");
    Document {
        text: format!("[{} bytes that are no text ({kind})]", bytes.len()),
        charset: None,
        binary: true,
        marks: vec!["they are no text: its bytes are kept apart".to_owned()],
        raw: Some(Blob::new(BlobKind::Bytes, bytes)),
    }
}

/// The encoding, and whether it is only a guess. Byte order mark, then header, then the page itself, then UTF-8 if it
/// fits, then what the bytes look like.
///
/// Source: HTML standard, "determining the character encoding".
fn encoding_of(bytes: &[u8], content_type: Option<&str>) -> (&'static Encoding, bool) {
    if let Some((encoding, _)) = Encoding::for_bom(bytes) {
        return (encoding, false);
    }
    let named = content_type
        .and_then(|text| label_after(text.as_bytes(), b"charset="))
        .or_else(|| named_in_page(&bytes[..bytes.len().min(META_WINDOW)]));
    if let Some(encoding) = named {
        return (encoding, false);
    }
    let window = &bytes[..bytes.len().min(1 << 20)];
    let valid_utf8 = match std::str::from_utf8(window) {
        Ok(_) => true,
        // Half a character at the window's end.
        Err(error) => error.error_len().is_none(),
    };
    if valid_utf8 {
        return (UTF_8, false);
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(window, true);
    (detector.guess(None, Utf8Detection::Deny), true)
}

/// `<meta charset=...>`, `<meta ... content="...charset=...">`, `<?xml ... encoding="..."?>`.
fn named_in_page(window: &[u8]) -> Option<&'static Encoding> {
    let lower = window.to_ascii_lowercase();
    if lower.starts_with(b"<?xml") {
        let end = find(&lower, b"?>").unwrap_or(lower.len());
        if let Some(encoding) = label_after(&lower[..end], b"encoding=") {
            return Some(encoding);
        }
    }
    let mut rest = &lower[..];
    while let Some(start) = find(rest, b"<meta") {
        rest = &rest[start + 5..];
        let end = find(rest, b">").unwrap_or(rest.len());
        if let Some(encoding) = label_after(&rest[..end], b"charset=") {
            // A page whose ASCII can be read as ASCII is no UTF-16, whatever it says.
            return Some(if encoding.is_ascii_compatible() { encoding } else { UTF_8 });
        }
    }
    None
}

fn label_after(text: &[u8], name: &[u8]) -> Option<&'static Encoding> {
    let lower = text.to_ascii_lowercase();
    let start = find(&lower, name)? + name.len();
    let rest = lower[start..].trim_ascii_start();
    let rest = rest.strip_prefix(b"\"").or_else(|| rest.strip_prefix(b"'")).unwrap_or(rest);
    let end = rest
        .iter()
        .position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':' | b'.' | b'+')))
        .unwrap_or(rest.len());
    Encoding::for_label(&rest[..end])
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// Text has few characters that can't be shown; a picture that claims to be text doesn't.
fn is_binary(text: &str, replaced: bool, content_type: Option<&str>) -> bool {
    let essence = content_type.unwrap_or("").split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    let pictured = ["image/", "audio/", "video/", "font/"].iter().any(|prefix| essence.starts_with(prefix));
    if pictured && essence != "image/svg+xml" {
        return true;
    }
    let strange = |character: char| matches!(character, '\u{fffd}' | '\u{0}'..='\u{8}' | '\u{e}'..='\u{1a}' | '\u{1c}'..='\u{1f}' | '\u{7f}'..='\u{9f}');
    let sample = || text.chars().take(1 << 16);
    let odd = sample().filter(|character| strange(*character)).count();
    let textual = essence.starts_with("text/")
        || ["json", "xml", "javascript", "yaml", "csv"].iter().any(|word| essence.contains(word));
    if textual {
        // One in ten; a few in a short text are no proof.
        odd > 8 && odd * 10 > sample().count()
    } else {
        (replaced && odd > 0) || odd * 100 > sample().count()
    }
}

#[cfg(test)]
mod tests;
