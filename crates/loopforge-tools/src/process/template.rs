//! The command of a process tool: fixed words, with places for arguments of the call.

use loopforge_core::json::{Json, canonical};

use super::ProcessError;

/// The longest word that Linux takes (`MAX_ARG_STRLEN`).
const LONGEST_WORD: usize = 128 * 1024 - 1;

/// A command with places for arguments.
///
/// `{name}` stands for an argument, anywhere in a word but not in the program's name; `{{` and `}}` stand for braces.
/// Braces around anything but a name are ordinary text. A word stays one word whatever the argument holds: there is no
/// shell in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandTemplate {
    words: Vec<Vec<Piece>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Argument(String),
}

/// Why arguments don't make a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FillError {
    #[error("the command needs the argument `{0}`, which is missing or null")]
    Missing(String),
    #[error("the argument `{0}` holds a NUL character, which no command line can carry")]
    Nul(String),
    #[error(
        "the command's word with the argument `{0}` is longer than the {limit} bytes that the system takes: read it from standard input instead",
        limit = LONGEST_WORD
    )]
    TooLong(String),
}

impl CommandTemplate {
    /// Reads a command.
    pub(super) fn new(words: &[String]) -> Result<Self, ProcessError> {
        let parsed: Vec<Vec<Piece>> = words.iter().map(|word| parse(word)).collect();
        match parsed.first().map(Vec::as_slice) {
            None | Some([]) => Err(ProcessError::NoProgram),
            Some([Piece::Text(_)]) => match words.iter().find(|word| word.contains('\0')) {
                Some(word) => Err(ProcessError::NulInCommand { word: word.clone() }),
                None => Ok(Self { words: parsed }),
            },
            Some(_) => Err(ProcessError::ProgramFromArgument { program: words[0].clone() }),
        }
    }

    /// The program's name or path.
    pub(super) fn program(&self) -> &str {
        match self.words[0].as_slice() {
            [Piece::Text(program)] => program,
            // `new` takes nothing else.
            _ => "",
        }
    }

    /// The words after the program that hold no arguments.
    pub(super) fn fixed_words(&self) -> impl Iterator<Item = &str> {
        self.words.iter().skip(1).filter_map(|word| match word.as_slice() {
            [Piece::Text(text)] => Some(text.as_str()),
            _ => None,
        })
    }

    /// The names of the arguments.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &str> {
        self.words.iter().flatten().filter_map(|piece| match piece {
            Piece::Argument(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// The command of one call.
    pub(super) fn fill(&self, arguments: &Json) -> Result<Vec<String>, FillError> {
        self.words.iter().map(|word| fill_word(word, arguments)).collect()
    }
}

fn fill_word(word: &[Piece], arguments: &Json) -> Result<String, FillError> {
    let mut filled = String::new();
    for piece in word {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Argument(name) => {
                let text = match arguments.get(name) {
                    None | Some(Json::Null) => return Err(FillError::Missing(name.clone())),
                    Some(Json::String(text)) => text.clone(),
                    Some(value) => canonical(value),
                };
                if text.contains('\0') {
                    return Err(FillError::Nul(name.clone()));
                }
                filled.push_str(&text);
                if filled.len() > LONGEST_WORD {
                    return Err(FillError::TooLong(name.clone()));
                }
            }
        }
    }
    Ok(filled)
}

fn parse(word: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = word;
    while let Some(position) = rest.find(['{', '}']) {
        text.push_str(&rest[..position]);
        rest = &rest[position..];
        if rest.starts_with("{{") || rest.starts_with("}}") {
            text.push_str(&rest[..1]);
            rest = &rest[2..];
        } else if let Some((name, after)) = placeholder(rest) {
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            pieces.push(Piece::Argument(name.to_owned()));
            rest = after;
        } else {
            text.push_str(&rest[..1]);
            rest = &rest[1..];
        }
    }
    text.push_str(rest);
    // An empty word is a word.
    if !text.is_empty() || (pieces.is_empty() && !word.is_empty()) {
        pieces.push(Piece::Text(text));
    }
    pieces
}

/// Takes `{name}` off the front.
fn placeholder(text: &str) -> Option<(&str, &str)> {
    let (name, after) = text.strip_prefix('{')?.split_once('}')?;
    let mut characters = name.chars();
    let starts_well = characters.next().is_some_and(|first| first.is_alphabetic() || first == '_');
    (starts_well && characters.all(|other| other.is_alphanumeric() || matches!(other, '_' | '-')))
        .then_some((name, after))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    fn template(words: &[&str]) -> CommandTemplate {
        CommandTemplate::new(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn arguments_stand_where_they_are_named() {
        let template = template(&["git", "log", "--author={who}", "{count}", "-{a}-{b}-", "", "{list}"]);
        let filled = template
            .fill(&json!({"who": "A; rm -rf / $(x)", "count": 3, "a": true, "b": 1.0, "list": [1, "é"]}))
            .unwrap();
        assert_eq!(filled, ["git", "log", "--author=A; rm -rf / $(x)", "3", "-true-1-", "", "[1,\"é\"]"]);
        assert_eq!(template.arguments().collect::<Vec<_>>(), ["who", "count", "a", "b", "list"]);
        assert_eq!(template.fixed_words().collect::<Vec<_>>(), ["log"]);
    }

    #[test]
    fn an_argument_is_not_read_as_a_template() {
        assert_eq!(template(&["echo", "{a}"]).fill(&json!({"a": "{b}{{", "b": "x"})).unwrap(), ["echo", "{b}{{"]);
    }

    #[test]
    fn braces_that_name_nothing_are_text() {
        let template = template(&["awk", "{{print $1}}", "{ }", "{}", "{1}", "a}b", "{", "{{x}}", "{x"]);
        assert_eq!(
            template.fill(&json!({})).unwrap(),
            ["awk", "{print $1}", "{ }", "{}", "{1}", "a}b", "{", "{x}", "{x"]
        );
    }

    #[test]
    fn what_no_command_line_carries_is_refused() {
        let template = template(&["echo", "{a}"]);
        assert_eq!(template.fill(&json!({})), Err(FillError::Missing("a".to_owned())));
        assert_eq!(template.fill(&json!({"a": null})), Err(FillError::Missing("a".to_owned())));
        assert_eq!(template.fill(&json!({"a": "x\0y"})), Err(FillError::Nul("a".to_owned())));
        assert_eq!(template.fill(&json!({"a": "x".repeat(200_000)})), Err(FillError::TooLong("a".to_owned())));
    }

    #[test]
    fn the_program_is_fixed() {
        assert!(matches!(CommandTemplate::new(&[]), Err(ProcessError::NoProgram)));
        assert!(matches!(CommandTemplate::new(&[String::new()]), Err(ProcessError::NoProgram)));
        assert!(matches!(CommandTemplate::new(&["{x}/run".to_owned()]), Err(ProcessError::ProgramFromArgument { .. })));
    }
}
