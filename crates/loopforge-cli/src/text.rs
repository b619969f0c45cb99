//! Text for terminals. What tools brought is data: it may not move the cursor or clear the screen.

#[cfg(test)]
mod tests;

/// Replaces control characters, so that a terminal shows the text and obeys nothing in it. Line breaks and tabs stay.
#[must_use]
pub fn safe(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '\n' | '\t' => character,
            // C0 as their pictures, the others as a replacement mark.
            '\0'..='\u{1f}' => char::from_u32(0x2400 + character as u32).unwrap_or('\u{fffd}'),
            '\u{7f}' => '\u{2421}',
            other if is_unsafe(other) => '\u{fffd}',
            other => other,
        })
        .collect()
}

/// Whether a terminal may obey a character, or show what follows in another order: C0, DEL, C1, breaks of lines that no
/// line break is, and marks of direction.
#[must_use]
pub const fn is_unsafe(character: char) -> bool {
    matches!(character, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// One safe line of at most `width` characters.
#[must_use]
pub fn line(text: &str, width: usize) -> String {
    let flat: String = safe(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if flat.chars().count() <= width {
        return flat;
    }
    let mut cut: String = flat.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// As [`line()`], but the column at the front stays: `verb` is padded to `column` characters.
#[must_use]
pub fn entry(verb: &str, column: usize, text: &str, width: usize) -> String {
    format!("{verb:<column$} {}", line(text, width.saturating_sub(column + 1)))
}

/// A span for people: `40 ms`, `1.3 s`, `12 s`, `3 min`, `2 h`.
#[must_use]
pub fn span(span: std::time::Duration) -> String {
    let seconds = span.as_secs_f64();
    if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1000.0)
    } else if seconds < 10.0 {
        format!("{seconds:.1} s")
    } else if seconds < 120.0 {
        format!("{seconds:.0} s")
    } else if seconds < 7200.0 {
        format!("{:.0} min", seconds / 60.0)
    } else {
        format!("{:.0} h", seconds / 3600.0)
    }
}

/// A size for people.
#[must_use]
pub fn bytes(size: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a rounded size for people")]
    let size = size as f64;
    for (unit, factor) in [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)] {
        if size >= factor {
            return format!("{:.1} {unit}", size / factor);
        }
    }
    format!("{size:.0} B")
}

/// A JSON value for people, of at most `width` characters: text as it is, all else as indented JSON. Safe for a terminal.
///
/// The second is true when something was left out.
#[must_use]
pub fn preview(value: &serde_json::Value, width: usize) -> (String, bool) {
    if let serde_json::Value::String(text) = value {
        let cut = text.char_indices().nth(width).map(|(at, _)| at);
        return (safe(&text[..cut.unwrap_or(text.len())]), cut.is_some());
    }
    // As many bytes as so many characters can have; what comes after is not even written.
    let mut written = Bounded { bytes: Vec::new(), room: width.saturating_mul(4) };
    let whole = serde_json::to_writer_pretty(&mut written, value).is_ok();
    let text = String::from_utf8_lossy(&written.bytes);
    let cut = text.char_indices().nth(width).map(|(at, _)| at);
    (safe(&text[..cut.unwrap_or(text.len())]), cut.is_some() || !whole)
}

/// A JSON value as one safe line of at most `width` characters: a text without quotes, all else as JSON.
#[must_use]
pub fn short(value: &serde_json::Value, width: usize) -> String {
    if let serde_json::Value::String(text) = value {
        // Spaces fold, so a line may need more than its width of text.
        let end = text.char_indices().nth(width.saturating_mul(4)).map_or(text.len(), |(at, _)| at);
        return line(&text[..end], width);
    }
    let mut written = Bounded { bytes: Vec::new(), room: width.saturating_mul(4) };
    let _ = serde_json::to_writer(&mut written, value);
    line(&String::from_utf8_lossy(&written.bytes), width)
}

/// Takes as many bytes as there is room for, then refuses.
struct Bounded {
    bytes: Vec<u8>,
    room: usize,
}

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() >= self.room {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(self.room - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
