//! Server-sent events, read as the bytes come in.
//!
//! Source: the event stream format of the HTML standard (WHATWG HTML §9.2.6). Two departures, since servers of models aren't browsers'
//! servers: an event that the end of the stream cuts off is given, marked as such, and a line `error: ...` (of old versions of llama.cpp)
//! is an event of that name.

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its name; empty where the server gave none.
    pub name: String,
    /// Its data, lines joined by line feeds.
    pub data: String,
}

/// Reads a stream piece by piece. How the pieces are cut makes no difference.
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    /// The last byte was a carriage return: a line feed right after it belongs to it.
    after_return: bool,
    begun: bool,
    name: String,
    data: String,
    has_data: bool,
    mended: usize,
}

impl Parser {
    /// A parser at the beginning of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes; adds the events that they complete.
    pub fn feed(&mut self, bytes: &[u8], events: &mut Vec<Event>) {
        for byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => self.end_line(events),
                _ => self.line.push(*byte),
            }
        }
    }

    /// Ends the stream. Gives the event that was not ended by a blank line, if there is one.
    pub fn finish(&mut self) -> Option<Event> {
        let mut events = Vec::new();
        if !self.line.is_empty() {
            self.end_line(&mut events);
        }
        self.dispatch(&mut events);
        events.pop()
    }

    /// Bytes of the event that is not complete yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.line.len() + self.data.len()
    }

    /// How many lines were not UTF-8; bad bytes are replaced by U+FFFD.
    #[must_use]
    pub const fn mended(&self) -> usize {
        self.mended
    }

    fn end_line(&mut self, events: &mut Vec<Event>) {
        let line = std::mem::take(&mut self.line);
        let line = if self.begun { line.as_slice() } else { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&line) };
        self.begun = true;
        if line.is_empty() {
            return self.dispatch(events);
        }
        let text = String::from_utf8_lossy(line);
        if matches!(text, std::borrow::Cow::Owned(_)) {
            self.mended += 1;
        }
        let (field, value) = text.split_once(':').unwrap_or((&text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                self.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.name),
            "error" => {
                "error".clone_into(&mut self.name);
                self.has_data = true;
                self.data.push_str(value);
            }
            // Comments have an empty name. `id` and `retry` are for reconnecting, which no server of models offers.
            _ => {}
        }
    }

    fn dispatch(&mut self, events: &mut Vec<Event>) {
        let name = std::mem::take(&mut self.name);
        if std::mem::take(&mut self.has_data) {
            events.push(Event { name, data: std::mem::take(&mut self.data) });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(pieces: &[&[u8]]) -> (Vec<Event>, Option<Event>) {
        let mut parser = Parser::new();
        let mut events = Vec::new();
        for piece in pieces {
            parser.feed(piece, &mut events);
        }
        let last = parser.finish();
        (events, last)
    }

    fn event(name: &str, data: &str) -> Event {
        Event { name: name.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn lines_end_in_all_three_ways_and_comments_are_no_events() {
        let stream =
            b"\xEF\xBB\xBF: hello\n\nevent: a\r\ndata: 1\r\ndata:2\r\n\r\ndata:  x \r\rid: 7\nretry: 5\ndata\n\n:\n\n";
        let (events, last) = parse(&[stream]);
        assert_eq!(events, [event("a", "1\n2"), event("", " x "), event("", "")]);
        assert_eq!(last, None);
    }

    #[test]
    fn an_event_that_the_end_cuts_off_is_told_apart() {
        assert_eq!(parse(&[b"data: 1\n\ndata: [DONE]"]), (vec![event("", "1")], Some(event("", "[DONE]"))));
        assert_eq!(parse(&[b"data: 1\n"]), (vec![], Some(event("", "1"))));
        assert_eq!(parse(&[b"event: a\n"]), (vec![], None));
    }

    #[test]
    fn every_split_of_a_stream_gives_the_same_events() {
        let stream = "event: é\r\ndata: 价格 399元 🙂\r\n\r\n: ping\r\rdata: {\"a\":\"ü\"}\n\ndata: end".as_bytes();
        let whole = parse(&[stream]);
        for first in 0..=stream.len() {
            for second in first..=stream.len() {
                assert_eq!(parse(&[&stream[..first], &stream[first..second], &stream[second..]]), whole);
            }
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(parse(&bytes), whole);
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced_and_counted() {
        let mut parser = Parser::new();
        let mut events = Vec::new();
        parser.feed(b"data: a\xFFb\n\n", &mut events);
        assert_eq!(events, [event("", "a\u{FFFD}b")]);
        assert_eq!(parser.mended(), 1);
    }

    proptest! {
        #[test]
        fn any_split_of_any_bytes_gives_the_same_events(
            parts in proptest::collection::vec("(data|event|id|error)?:? ?[a-z价🙂:]{0,4}(\r|\n|\r\n|\n\n|\r\n\r\n)?", 0..12),
            cuts in proptest::collection::vec(0_usize..200, 0..6),
        ) {
            let stream = parts.concat().into_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
            prop_assert_eq!(parse(&pieces), parse(&[&stream]));
        }
    }
}
