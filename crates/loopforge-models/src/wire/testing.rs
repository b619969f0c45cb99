//! Reads replies from bytes, for the tests of each form.

use loopforge_core::json::Json;
use loopforge_core::model::{Block, ModelError, Opaque, Reply, Request, ToolCall};

use super::{Api, Names, Options, Reader, decoder, encode};
use crate::http::{Pieces, Progress};

pub(super) fn options() -> Options {
    Options { provider: "p".to_owned(), model: "m".to_owned(), ..Options::default() }
}

/// Reads a reply that comes in one piece.
pub(super) fn read(api: Api, bytes: &[u8]) -> Result<Reply, ModelError> {
    read_pieces(api, &[bytes])
}

/// Reads a reply that comes in these pieces.
pub(super) fn read_pieces(api: Api, pieces: &[&[u8]]) -> Result<Reply, ModelError> {
    let mut reader = Reader::new(decoder(api, &options()), None);
    for piece in pieces {
        if reader.take(piece)? == Progress::End {
            break;
        }
    }
    Ok(reader.finish()?.complete(&Request::new("p/m", "", vec![]), &Names::default()))
}

/// A stream of unnamed events.
pub(super) fn stream(events: &[Json]) -> Vec<u8> {
    events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>().into_bytes()
}

/// A stream of events with their `type` as the name.
pub(super) fn named(events: &[Json]) -> Vec<u8> {
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default()))
        .collect::<String>()
        .into_bytes()
}

pub(super) fn body(api: Api, request: &Request, options: &Options) -> Json {
    serde_json::from_slice(&encode(api, request, options).body).unwrap_or_default()
}

/// The calls as (id, name, text of the arguments).
pub(super) fn calls(reply: &Reply) -> Vec<(&str, &str, &str)> {
    reply.calls().map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.text())).collect()
}

pub(super) fn opaque(value: Json) -> Block {
    Block::Opaque(Opaque { provider: "p".to_owned(), model: "m".to_owned(), value })
}

pub(super) fn call(id: &str, name: &str, arguments: &str) -> Block {
    Block::ToolCall(ToolCall {
        id: id.to_owned(),
        provider_id: None,
        name: name.to_owned(),
        arguments: loopforge_core::model::Arguments::read(arguments),
    })
}

/// Reading any split of `bytes` in two, and one byte at a time, gives the same as reading them whole.
pub(super) fn same_however_cut(api: Api, bytes: &[u8]) {
    let whole = read(api, bytes);
    for cut in 0..=bytes.len() {
        assert_eq!(read_pieces(api, &[&bytes[..cut], &bytes[cut..]]), whole, "cut at {cut}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(read_pieces(api, &single), whole);
}

/// No beginning of a stream is a reply, but for those from `end` on.
pub(super) fn no_beginning_is_a_reply(api: Api, bytes: &[u8], end: usize) {
    for cut in 0..end {
        let result = read(api, &bytes[..cut]);
        assert!(result.as_ref().is_err_and(ModelError::is_transient), "cut at {cut}: {result:?}");
    }
    for cut in end..=bytes.len() {
        assert!(read(api, &bytes[..cut]).is_ok(), "cut at {cut}");
    }
}
