//! Ids of calls: servers repeat theirs, in a reply and from reply to reply.

use std::collections::HashSet;

use loopforge_core::model::{Block, Request, ToolCall};

/// The longest id that is kept; providers refuse longer ones when they come back.
const LONGEST: usize = 64;

/// Makes the ids of a reply's calls unique among themselves and those of the conversation.
///
/// A call that repeats id, name and arguments of another one of the same reply is that call again, and left out. An id that some provider would
/// not take back, or that is missing, is replaced.
pub(super) fn make_unique(blocks: &mut Vec<Block>, request: &Request, marks: &mut Vec<String>) {
    let mut seen: Vec<ToolCall> = Vec::new();
    let before = blocks.len();
    blocks.retain(|block| match block {
        Block::ToolCall(call) => {
            let again = !call.id.is_empty() && seen.iter().any(|other| other == call);
            seen.push(call.clone());
            !again
        }
        Block::Text { .. } | Block::Opaque(_) | Block::ToolResult(_) => true,
    });
    if blocks.len() < before {
        marks.push(format!("{} × call that the server repeated left out", before - blocks.len()));
    }
    let mut taken: HashSet<String> = request.calls().map(|call| call.id.clone()).collect();
    let turn = request.messages.len();
    let mut position = 0;
    for block in blocks {
        let Block::ToolCall(call) = block else { continue };
        position += 1;
        if is_good(&call.id) && taken.insert(call.id.clone()) {
            continue;
        }
        let mut id = format!("call_{turn}_{position}");
        let mut number = 2;
        while !taken.insert(id.clone()) {
            id = format!("call_{turn}_{position}_{number}");
            number += 1;
        }
        let given = std::mem::replace(&mut call.id, id);
        call.provider_id = (!given.is_empty()).then_some(given);
    }
}

fn is_good(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= LONGEST
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use loopforge_core::model::{Arguments, Message};

    use super::*;

    fn call(id: &str, name: &str, arguments: &str) -> Block {
        Block::ToolCall(ToolCall {
            id: id.to_owned(),
            provider_id: None,
            name: name.to_owned(),
            arguments: Arguments::read(arguments),
        })
    }

    fn ids(blocks: &[Block]) -> Vec<(String, Option<String>)> {
        blocks
            .iter()
            .filter_map(|block| match block {
                Block::ToolCall(call) => Some((call.id.clone(), call.provider_id.clone())),
                _ => None,
            })
            .collect()
    }

    /// LLM-06
    #[test]
    fn ids_are_unique_in_a_reply_and_in_the_conversation() {
        let mut request = Request::new("m", "", vec![Message::user("go")]);
        for turn in 0..5 {
            let mut blocks =
                vec![call("c", "a", "{}"), call("c", "b", "{}"), call("", "b", "{}"), call("x y", "b", "{}")];
            make_unique(&mut blocks, &request, &mut Vec::new());
            let found = ids(&blocks);
            assert_eq!(found.len(), 4);
            if turn == 0 {
                assert_eq!(found[0], ("c".to_owned(), None));
            } else {
                assert_eq!(found[0].1.as_deref(), Some("c"));
            }
            assert_eq!(found[1].1.as_deref(), Some("c"));
            assert_eq!(found[2].1, None);
            assert_eq!(found[3].1.as_deref(), Some("x y"));
            request.messages.push(Message::assistant(blocks));
        }
        let all: Vec<&str> = request.calls().map(|call| call.id.as_str()).collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 20);
    }

    /// LLM-06
    #[test]
    fn an_exact_repetition_is_one_call() {
        let mut marks = Vec::new();
        let mut blocks = vec![call("c", "a", "{\"n\":1}"), call("c", "a", "{\"n\":1}"), call("d", "a", "{\"n\":1}")];
        make_unique(&mut blocks, &Request::new("m", "", vec![]), &mut marks);
        assert_eq!(ids(&blocks).len(), 2);
        assert_eq!(marks.len(), 1);
        let mut without = vec![call("", "a", "{}"), call("", "a", "{}")];
        make_unique(&mut without, &Request::new("m", "", vec![]), &mut marks);
        assert_eq!(ids(&without).len(), 2);
    }
}
