//! Text for terminals. What tools brought is data: it may not move the cursor or clear the screen.

/// Replaces control characters, so that a terminal shows the text and obeys nothing in it. Line breaks and tabs stay.
#[must_use]
pub fn safe(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '\n' | '\t' => character,
            // C0 as their pictures, C1 and what reorders text as a replacement mark.
            '\0'..='\u{1f}' => char::from_u32(0x2400 + character as u32).unwrap_or('\u{fffd}'),
            '\u{7f}' => '\u{2421}',
            '\u{80}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
            other => other,
        })
        .collect()
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

/// A span for people: `0.3 s`, `12 s`, `3 min`, `2 h`.
#[must_use]
pub fn span(span: std::time::Duration) -> String {
    let seconds = span.as_secs_f64();
    if seconds < 10.0 {
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
