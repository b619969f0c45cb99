//! What is wrong with a task file or an input: the place, the nearest known name, the remedy.
//!
//! A reader of these is a person before an editor, so that a problem is rendered as compilers do it. All problems of a file
//! are reported at once.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The kind of mistake; stable, for programs.
    pub code: ProblemCode,
    /// What is wrong: a fragment, in the file's own terms.
    pub message: String,
    /// The file, as the reader was told to call it.
    pub file: Arc<str>,
    /// 1 for the first line.
    pub line: usize,
    /// 1 for the first character of the line.
    pub column: usize,
    /// The place in the structure, such as `subgoals[0].steps[1].with.url`; empty for the file as a whole.
    pub path: String,
    /// The line as it stands in the file, cut around the place when it is long.
    pub snippet: Snippet,
    /// The known name that is most like the one found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// A line of the file and the part of it that is meant.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Snippet {
    /// The line, without what a terminal can't show.
    pub text: String,
    /// Columns of a terminal before the marked part.
    pub indent: usize,
    /// Columns of a terminal that the marked part takes; at least 1.
    pub width: usize,
}

/// The kinds of mistake. The names in kebab case are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemCode {
    /// The bytes are no UTF-8 text, or hold a NUL.
    NotText,
    /// Over a limit of size, depth or number.
    TooLarge,
    /// There is nothing in it.
    Empty,
    /// Not YAML, or not JSON.
    Syntax,
    /// A key is given twice.
    DuplicateKey,
    /// A key that is not part of the schema.
    UnknownKey,
    /// A key without a value.
    EmptyValue,
    /// A value of another type.
    WrongType,
    /// A value that is not among those allowed, or out of range.
    BadValue,
    /// A key that must be given.
    Missing,
    /// Keys that exclude each other, or one that has no meaning here.
    Conflict,
    /// Part of the schema, and not built yet.
    NotAvailable,
    /// A name that is not written as names are.
    BadName,
    /// Two things of one name.
    DuplicateName,
    /// A name that nothing has.
    UnknownName,
    /// Subgoals that wait for each other.
    Cycle,
    /// Something that can never be reached or used.
    Unreachable,
    /// Not a CEL expression.
    BadExpression,
    /// Not a JSON Schema.
    BadSchema,
    /// Arguments that break a tool's schema.
    BadArgument,
    /// Not a JSON pointer.
    BadPointer,
    /// A file that isn't there.
    NoFile,
}

impl fmt::Display for ProblemCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl fmt::Display for Problem {
    /// The place and what is wrong, the line with the place marked, and how to mend it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        if !self.snippet.text.is_empty() {
            let Snippet { text, indent, width } = &self.snippet;
            write!(f, "\n{margin} |\n{number} | {text}\n{margin} | {:indent$}{}", "", "^".repeat(*width))?;
        }
        if let Some(nearest) = &self.nearest {
            write!(f, "\n{margin} = help: did you mean `{nearest}`?")?;
        }
        if let Some(remedy) = &self.remedy {
            write!(f, "\n{margin} = help: {remedy}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

/// All that is wrong with a file, by place. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Sorts `problems` by place. `None` when there are none.
    pub(crate) fn new(mut problems: Vec<Problem>) -> Option<Self> {
        problems.sort_by(|a, b| (a.line, a.column, a.code, &a.message).cmp(&(b.line, b.column, b.code, &b.message)));
        problems.dedup();
        (!problems.is_empty()).then_some(Self(problems))
    }

    /// The problems, in the order of the file.
    #[must_use]
    pub fn all(&self) -> &[Problem] {
        &self.0
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl From<Box<Problem>> for Problems {
    fn from(problem: Box<Problem>) -> Self {
        (*problem).into()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, problem) in self.0.iter().enumerate() {
            if position > 0 {
                f.write_str("\n\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// What is wrong, before the place is known.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    pub(super) code: ProblemCode,
    pub(super) message: String,
    pub(super) nearest: Option<String>,
    pub(super) remedy: Option<String>,
}

impl Finding {
    pub(super) fn new(code: ProblemCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), nearest: None, remedy: None }
    }

    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Names the known name most like `name`, or lists all that are known, when they are few.
    pub(super) fn known<'a>(
        mut self,
        name: &str,
        kind: &str,
        candidates: impl IntoIterator<Item = &'a (impl AsRef<str> + ?Sized + 'a)>,
    ) -> Self {
        let candidates: Vec<&str> = candidates.into_iter().map(AsRef::as_ref).collect();
        self.nearest = nearest(name, candidates.iter().copied());
        if self.nearest.is_none() && self.remedy.is_none() {
            self.remedy = match candidates.as_slice() {
                [] => Some(format!("there are no {kind}")),
                known if known.len() <= 24 => Some(format!("known {kind}: {}", known.join(", "))),
                _ => None,
            };
        }
        self
    }
}

/// The candidate most like `name`, when one is like it at all.
pub(super) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let plain = |text: &str| text.to_lowercase().replace(['-', ' ', '.'], "_");
    // A long text is no name, and comparing it would take long.
    if name.len() > 100 {
        return None;
    }
    let wanted = plain(name);
    let limit = (name.chars().count() / 3).clamp(1, 4);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&wanted, &plain(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= limit && *distance < candidate.chars().count())
        .min()
        .map(|(_, candidate)| candidate.to_owned())
}

/// The text of a file, by which places are found.
#[derive(Debug, Clone)]
pub(super) struct Source<'t> {
    origin: Arc<str>,
    text: &'t str,
    /// Bytes of the byte-order mark.
    mark: usize,
}

impl<'t> Source<'t> {
    /// A byte-order mark at the beginning is no part of the text.
    pub(super) fn new(origin: &str, text: &'t str) -> Self {
        let plain = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self { origin: origin.into(), text: plain, mark: text.len() - plain.len() }
    }

    /// The position in the file, which may begin with a byte-order mark, of a position in the text.
    pub(super) fn in_file(&self, at: usize) -> usize {
        at + self.mark
    }

    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    pub(super) fn text(&self) -> &'t str {
        self.text
    }

    /// A problem at a range of bytes.
    pub(super) fn problem(&self, range: Range<usize>, path: String, finding: Finding) -> Problem {
        let start = floor(self.text, range.start);
        let line_start = self.text[..start].rfind('\n').map_or(0, |position| position + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |length| start + length);
        let line = self.text[line_start..line_end].trim_end_matches('\r');
        let marked = floor(self.text, range.end).clamp(start, line_start + line.len().max(start - line_start));
        Problem {
            code: finding.code,
            message: printable(&finding.message),
            file: Arc::clone(&self.origin),
            line: self.text[..line_start].bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: self.text[line_start..start].chars().count() + 1,
            path: printable(&path),
            snippet: snippet(line, (start - line_start).min(line.len()), (marked - line_start).min(line.len())),
            nearest: finding.nearest.as_deref().map(printable),
            remedy: finding.remedy.as_deref().map(printable),
        }
    }
}

/// The most problems that are reported at once. Whoever has more looks at the first ones.
const MAX_PROBLEMS: usize = 100;

/// The problems found so far.
#[derive(Debug)]
pub(super) struct Report<'s, 't> {
    pub(super) source: &'s Source<'t>,
    problems: Vec<Problem>,
}

impl<'s, 't> Report<'s, 't> {
    pub(super) fn new(source: &'s Source<'t>) -> Self {
        Self { source, problems: Vec::new() }
    }

    /// Adds a problem, unless there are more than anybody reads.
    pub(super) fn add(&mut self, range: Range<usize>, path: String, finding: Finding) {
        if !self.is_full() {
            self.problems.push(self.source.problem(range, path, finding));
        }
    }

    /// Whether there are as many problems as anybody reads; finding more is of no use.
    pub(super) fn is_full(&self) -> bool {
        self.problems.len() >= MAX_PROBLEMS
    }

    pub(super) fn push(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    pub(super) fn found(&self) -> &[Problem] {
        &self.problems
    }

    pub(super) fn finish(self) -> Option<Problems> {
        Problems::new(self.problems)
    }
}

/// The nearest boundary of characters at or before `position`.
fn floor(text: &str, position: usize) -> usize {
    text.floor_char_boundary(position.min(text.len()))
}

/// The longest sentence that is shown whole, in characters. It may quote the file.
const LONGEST_SENTENCE: usize = 500;

/// A sentence as a terminal can show it: what stands in the file can't move the cursor or fill the screen.
fn printable(text: &str) -> String {
    let mut shortened: String = text
        .chars()
        .take(LONGEST_SENTENCE)
        .map(|character| if character == '\n' { ' ' } else { shown(character) })
        .collect();
    if text.chars().nth(LONGEST_SENTENCE).is_some() {
        shortened.push('…');
    }
    shortened
}

/// The longest line that is shown whole, in characters.
const LONGEST_LINE: usize = 120;

fn snippet(line: &str, start: usize, end: usize) -> Snippet {
    let before: Vec<char> = line[..start].chars().collect();
    let cut = if before.len() > LONGEST_LINE * 2 / 3 { before.len() - LONGEST_LINE / 3 } else { 0 };
    let mut text = if cut > 0 { "…".to_owned() } else { String::new() };
    text.extend(before[cut..].iter().copied().map(shown));
    let indent = text.width();
    let marked: String = line[start..end].chars().map(shown).take(LONGEST_LINE / 2).collect();
    let room = LONGEST_LINE.saturating_sub(text.chars().count());
    let rest: Vec<char> = line[start..].chars().map(shown).take(room + 1).collect();
    text.extend(rest.iter().take(room));
    if rest.len() > room {
        text.push('…');
    }
    Snippet { text: text.trim_end().to_owned(), indent, width: marked.width().max(1) }
}

/// What a terminal would act on is shown as a mark of the same width as it is counted.
fn shown(character: char) -> char {
    match character {
        '\t' => ' ',
        _ if character.is_control() || character.width().is_none() => '\u{fffd}',
        // Marks that turn the direction of text could hide what the line says.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        _ => character,
    }
}
