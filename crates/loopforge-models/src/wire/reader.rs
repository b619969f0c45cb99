//! From bytes to a reply, whatever the server says they are.
//!
//! Servers answer a request for a stream with one document, name a stream `text/plain`, and answer with pages of HTML and status 200. So the
//! first character decides, not the content type.

use loopforge_core::model::{ErrorKind, ModelError, Usage};

use super::{Decoder, Draft, json};
use crate::http::{Pieces, Progress, Said, classified};
use crate::sse::Parser;
use crate::{Delta, OnDelta};

/// Reads the bytes of one reply.
pub(crate) struct Reader {
    decoder: Box<dyn Decoder>,
    form: Form,
    on_delta: Option<OnDelta>,
    ended: bool,
    marks: Vec<String>,
}

enum Form {
    /// Nothing but blanks so far.
    Unknown,
    Stream {
        parser: Parser,
        events: usize,
        start: Vec<u8>,
    },
    Document(Vec<u8>),
}

/// As much of a stream without events is kept for saying what it was.
const START: usize = 2048;

impl Reader {
    pub(crate) fn new(decoder: Box<dyn Decoder>, on_delta: Option<OnDelta>) -> Self {
        Self { decoder, form: Form::Unknown, on_delta, ended: false, marks: Vec::new() }
    }

    /// Ends the reply after the last byte.
    pub(crate) fn finish(mut self) -> Result<Draft, ModelError> {
        let usage = self.decoder.usage();
        self.end().map_err(|error| {
            let usage = if *error.usage == Usage::default() { usage } else { *error.usage };
            error.status(200).billed(usage)
        })
    }

    fn end(&mut self) -> Result<Draft, ModelError> {
        match std::mem::replace(&mut self.form, Form::Unknown) {
            Form::Unknown => return Err(json::truncated("it is empty")),
            Form::Stream { mut parser, events, start } => {
                if !self.ended
                    && let Some(event) = parser.finish()
                {
                    // The last event wasn't ended. If it can be read it is whole.
                    let decoder = &mut self.decoder;
                    let on_delta = self.on_delta.clone();
                    decoder.event(&event, &mut tell(on_delta.as_ref())).map_err(|error| match error.kind {
                        ErrorKind::Unreadable => json::truncated("its last line is cut off"),
                        _ => error,
                    })?;
                } else if events == 0 {
                    return Err(no_answer(&String::from_utf8_lossy(&start)));
                }
                if parser.mended() > 0 {
                    self.marks.push(format!("{} × line that is not UTF-8 mended", parser.mended()));
                }
            }
            Form::Document(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                if text.trim_start().starts_with('<') {
                    return Err(no_answer(&text));
                }
                let body = json::read(&text, &mut self.marks).map_err(|error| {
                    let cut =
                        serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_err_and(|error| error.is_eof());
                    if cut { json::truncated("its document is cut off") } else { error }
                })?;
                if let Some(error) = json::error_in(&body) {
                    return Err(error);
                }
                self.decoder.whole(body)?;
            }
        }
        let mut draft = self.decoder.finish()?;
        draft.marks.append(&mut self.marks);
        Ok(draft)
    }
}

impl Pieces for Reader {
    fn take(&mut self, bytes: &[u8]) -> Result<Progress, ModelError> {
        if matches!(self.form, Form::Unknown) {
            let start = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes).trim_ascii_start();
            match start.first() {
                None => return Ok(Progress::KeepAlive),
                Some(b'{' | b'[' | b'<') => self.form = Form::Document(Vec::new()),
                Some(_) => self.form = Form::Stream { parser: Parser::new(), events: 0, start: Vec::new() },
            }
        }
        let mut progress = Progress::KeepAlive;
        match &mut self.form {
            Form::Unknown => {}
            Form::Document(document) => {
                document.extend_from_slice(bytes);
                progress = Progress::Piece;
            }
            Form::Stream { parser, events, start } => {
                if *events == 0 && start.len() < START {
                    start.extend_from_slice(&bytes[..bytes.len().min(START - start.len())]);
                }
                let mut found = Vec::new();
                parser.feed(bytes, &mut found);
                *events += found.len();
                let before = parser.pending();
                let usage = self.decoder.usage();
                for event in found {
                    if self.ended {
                        break;
                    }
                    let step = self
                        .decoder
                        .event(&event, &mut tell(self.on_delta.as_ref()))
                        .map_err(|error| error.status(200).billed(usage))?;
                    progress = progress.max(step);
                    self.ended = step == Progress::End;
                }
                // A long event that comes in many pieces is progress before its end, too.
                if before > 0 && progress == Progress::KeepAlive {
                    progress = Progress::Piece;
                }
            }
        }
        Ok(progress)
    }

    fn usage(&self) -> Usage {
        self.decoder.usage()
    }
}

fn tell(on_delta: Option<&OnDelta>) -> impl FnMut(Delta<'_>) {
    move |delta| {
        if let Some(on_delta) = on_delta {
            on_delta(delta);
        }
    }
}

fn no_answer(text: &str) -> ModelError {
    let said = classified(200, &Said::read(text), None);
    ModelError::new(
        ErrorKind::Unreadable,
        format!("what came is no answer of a model; check `base_url` if this goes on ({})", said.message),
    )
}
