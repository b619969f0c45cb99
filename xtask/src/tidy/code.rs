//! Rust code without what is not code.

/// The source with comments, texts and characters blanked out. Lines keep their numbers.
///
/// A search in it finds code only: a word in a doc comment or in a message doesn't count.
pub(super) fn only_code(source: &str) -> String {
    let letters: Vec<char> = source.chars().collect();
    let mut blanked = Blanked { out: String::with_capacity(source.len()), at: 0, letters };
    while let Some(letter) = blanked.peek(0) {
        match letter {
            '/' if blanked.peek(1) == Some('/') => blanked.skip_line(),
            '/' if blanked.peek(1) == Some('*') => blanked.skip_block(),
            '"' => blanked.skip_text(),
            'r' | 'b' | 'c' if !blanked.in_word() => blanked.skip_prefixed(),
            '\'' => blanked.skip_character(),
            _ => blanked.keep(1),
        }
    }
    blanked.out
}

struct Blanked {
    letters: Vec<char>,
    at: usize,
    out: String,
}

impl Blanked {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.letters.get(self.at + ahead).copied()
    }

    /// Whether the letter before belongs to the same word.
    fn in_word(&self) -> bool {
        self.at > 0 && is_word(self.letters[self.at - 1])
    }

    fn keep(&mut self, count: usize) {
        for _ in 0..count {
            if let Some(letter) = self.peek(0) {
                self.out.push(letter);
                self.at += 1;
            }
        }
    }

    fn blank(&mut self, count: usize) {
        for _ in 0..count {
            if let Some(letter) = self.peek(0) {
                self.out.push(if letter == '\n' { '\n' } else { ' ' });
                self.at += 1;
            }
        }
    }

    fn skip_line(&mut self) {
        while self.peek(0).is_some_and(|letter| letter != '\n') {
            self.blank(1);
        }
    }

    fn skip_block(&mut self) {
        let mut depth = 0;
        while let Some(letter) = self.peek(0) {
            match (letter, self.peek(1)) {
                ('/', Some('*')) => {
                    depth += 1;
                    self.blank(2);
                }
                ('*', Some('/')) => {
                    depth -= 1;
                    self.blank(2);
                    if depth == 0 {
                        return;
                    }
                }
                _ => self.blank(1),
            }
        }
    }

    fn skip_text(&mut self) {
        self.blank(1);
        while let Some(letter) = self.peek(0) {
            match letter {
                '\\' => self.blank(2),
                '"' => return self.blank(1),
                _ => self.blank(1),
            }
        }
    }

    /// `r"..."`, `br#"..."#`, `b"..."`, `b'x'`, `c"..."`, or a word that begins with these letters.
    fn skip_prefixed(&mut self) {
        let mut prefix = 0;
        while matches!(self.peek(prefix), Some('r' | 'b' | 'c')) && prefix < 2 {
            prefix += 1;
        }
        let raw = (0..prefix).any(|ahead| self.peek(ahead) == Some('r'));
        let mut hashes = 0;
        while raw && self.peek(prefix + hashes) == Some('#') {
            hashes += 1;
        }
        match self.peek(prefix + hashes) {
            Some('"') if raw => self.skip_raw(prefix, hashes),
            Some('"') => {
                self.blank(prefix);
                self.skip_text();
            }
            Some('\'') if !raw => {
                self.blank(prefix);
                self.skip_character();
            }
            _ => self.keep(1),
        }
    }

    fn skip_raw(&mut self, prefix: usize, hashes: usize) {
        self.blank(prefix + hashes + 1);
        while let Some(letter) = self.peek(0) {
            let ends = letter == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == Some('#'));
            self.blank(1);
            if ends {
                return self.blank(hashes);
            }
        }
    }

    /// A character, or the name of a lifetime.
    fn skip_character(&mut self) {
        if self.peek(1) == Some('\\') {
            self.blank(3);
            while self.peek(0).is_some_and(|letter| letter != '\'') {
                self.blank(1);
            }
            self.blank(1);
        } else if self.peek(2) == Some('\'') {
            self.blank(3);
        } else {
            self.keep(1);
        }
    }
}

/// Whether a letter can be part of a name.
pub(super) fn is_word(letter: char) -> bool {
    letter == '_' || letter.is_alphanumeric()
}

/// The numbers of the lines in which `needle` stands as words of its own, from 1.
pub(super) fn lines_with(code: &str, needle: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let stands = line.match_indices(needle).any(|(at, _)| {
            let joins = |own: Option<char>, other: Option<char>| own.is_some_and(is_word) && other.is_some_and(is_word);
            let before = line[..at].chars().next_back();
            let after = line[at + needle.len()..].chars().next();
            !joins(needle.chars().next(), before) && !joins(needle.chars().next_back(), after)
        });
        if stands {
            found.push(index + 1);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{lines_with, only_code};

    #[test]
    fn comments_and_texts_are_no_code() {
        let source = r####"
let a = "SystemTime::now()"; // SystemTime::now()
/* SystemTime::now() /* nested */ SystemTime::now() */ let b = 1;
let c = r#"quoted "SystemTime::now()" "#; let d = b"\"SystemTime::now()";
let e = '"'; let f = '\''; let g: &'static str = "SystemTime::now()"; let h = b'"';
let i = '\u{22}'; real(SystemTime::now());
"####;
        let code = only_code(source);
        assert_eq!(code.lines().count(), source.lines().count());
        assert_eq!(lines_with(&code, "SystemTime::now"), [6]);
        assert!(code.contains("let b = 1;") && code.contains("'static str"));
    }

    #[test]
    fn words_that_begin_like_prefixes_are_code() {
        assert_eq!(only_code("break; crate::br(c, r, b); r#type"), "break; crate::br(c, r, b); r#type");
    }

    #[test]
    fn only_whole_words_count() {
        assert_eq!(lines_with("my_dbg!(x)\ndbg!(x)\nrand::random()\noperand::x", "dbg!"), [2]);
        assert_eq!(lines_with("my_dbg!(x)\ndbg!(x)\nrand::random()\noperand::x", "rand::"), [3]);
    }
}
