//! Puts the pieces of streamed calls together.
//!
//! By the book each piece has the `index` of its call, and the first one its id and name. Servers leave the index out, set it to 0 for all,
//! raise it with every piece, repeat id and name on every piece, or send whole calls. Each piece is put where it can only belong. Where
//! two places are possible, the stream is an error: a guess would be executed.

use loopforge_core::json::Json;
use loopforge_core::model::{Arguments, ModelError};
use serde_json::Map;

use crate::wire::json::{text, unreadable};

/// A call as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Partial {
    index: Option<i64>,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    /// Members that only the provider understands and wants back.
    pub(super) extra: Map<String, Json>,
}

/// The calls of a reply.
#[derive(Debug, Default)]
pub(super) struct Calls(pub(super) Vec<Partial>);

/// A piece of a call.
struct Piece<'p> {
    index: Option<i64>,
    id: Option<&'p str>,
    name: Option<&'p str>,
    arguments: String,
}

enum Place {
    At(usize),
    New,
}

impl Calls {
    /// Adds a piece. Says whether a call began.
    pub(super) fn add(&mut self, json: &Json) -> Result<bool, ModelError> {
        let function = json.get("function").unwrap_or(&Json::Null);
        let piece = Piece {
            index: json.get("index").and_then(Json::as_i64),
            id: text(json, "id"),
            name: text(function, "name"),
            arguments: match function.get("arguments") {
                None | Some(Json::Null) => String::new(),
                Some(Json::String(text)) => text.clone(),
                // Some servers send the value itself. What isn't an object is told apart when it is read.
                Some(other) => other.to_string(),
            },
        };
        let (place, is_new) = match self.place(&piece)? {
            Place::At(place) => (place, false),
            Place::New => {
                self.0.push(Partial::default());
                (self.0.len() - 1, true)
            }
        };
        let call = &mut self.0[place];
        call.index = piece.index.or(call.index);
        if let (true, Some(id)) = (call.id.is_empty(), piece.id) {
            id.clone_into(&mut call.id);
        }
        if let (true, Some(name)) = (call.name.is_empty(), piece.name) {
            name.clone_into(&mut call.name);
        }
        call.arguments.push_str(&piece.arguments);
        if let Json::Object(members) = json {
            for (key, value) in members {
                if !matches!(key.as_str(), "index" | "id" | "type" | "function") && !value.is_null() {
                    call.extra.insert(key.clone(), value.clone());
                }
            }
        }
        Ok(is_new)
    }

    fn place(&self, piece: &Piece<'_>) -> Result<Place, ModelError> {
        if self.0.is_empty() {
            return Ok(Place::New);
        }
        match piece.id {
            Some(id) => match self.0.iter().rposition(|call| call.id == id) {
                Some(place) => Ok(self.same_id(place, piece)),
                None => self.other_id(piece),
            },
            None => self.without_id(piece),
        }
    }

    /// A piece with the id of a call that has begun.
    fn same_id(&self, place: usize, piece: &Piece<'_>) -> Place {
        let call = &self.0[place];
        let Some(name) = piece.name else { return Place::At(place) };
        if name != call.name && !call.name.is_empty() {
            return Place::New;
        }
        if call.is_whole() && piece.begins_object() {
            // The same id and name, and another whole object: the call again, or a second one. `ids` tells them apart.
            return Place::New;
        }
        Place::At(place)
    }

    /// A piece with an id that no call has yet.
    fn other_id(&self, piece: &Piece<'_>) -> Result<Place, ModelError> {
        if piece.name.is_some() {
            // The first piece of a call may have come without the id.
            if let Some(place) = self.at_index(piece.index)
                && self.0[place].id.is_empty()
                && self.0[place].name.is_empty()
            {
                return Ok(Place::At(place));
            }
            return Ok(Place::New);
        }
        // Without a name it begins no call, unless that follows: a server that gives each piece an id of its own.
        match self.at_index(piece.index) {
            Some(place) if !self.0[place].is_whole() => Ok(Place::At(place)),
            Some(_) => Ok(Place::New),
            None if piece.index.is_some() || piece.arguments.is_empty() => Ok(Place::New),
            None => self.only_open(piece),
        }
    }

    fn without_id(&self, piece: &Piece<'_>) -> Result<Place, ModelError> {
        if let Some(name) = piece.name {
            let place = match piece.index {
                Some(index) => match self.0.iter().rposition(|call| call.index == Some(index)) {
                    Some(place) => place,
                    None => return Ok(Place::New),
                },
                None => self.0.len() - 1,
            };
            let call = &self.0[place];
            if call.name.is_empty() {
                return Ok(Place::At(place));
            }
            if call.name != name || call.is_whole() {
                return Ok(Place::New);
            }
            if call.arguments.is_empty() && piece.index.is_none() && piece.begins_object() {
                return Err(undecidable("a piece that goes on with a call or begins another of the same tool"));
            }
            return Ok(Place::At(place));
        }
        match self.at_index(piece.index) {
            Some(place) => Ok(Place::At(place)),
            None => self.only_open(piece),
        }
    }

    /// The call with an index, the last one where several have it.
    fn at_index(&self, index: Option<i64>) -> Option<usize> {
        index.and_then(|index| self.0.iter().rposition(|call| call.index == Some(index)))
    }

    /// The one call that isn't whole: only there a nameless piece can belong.
    fn only_open(&self, piece: &Piece<'_>) -> Result<Place, ModelError> {
        if piece.arguments.trim().is_empty() {
            return Ok(Place::At(self.0.len() - 1));
        }
        let open: Vec<usize> = (0..self.0.len()).filter(|place| !self.0[*place].is_whole()).collect();
        match open.as_slice() {
            [place] => Ok(Place::At(*place)),
            [] => Err(undecidable("a piece that belongs to no call")),
            _ => Err(undecidable("a piece that may belong to several calls")),
        }
    }
}

impl Partial {
    /// Whether its arguments are a whole object, to which nothing can be added.
    fn is_whole(&self) -> bool {
        !self.arguments.trim().is_empty() && Arguments::read(self.arguments.as_str()).object().is_some()
    }
}

impl Piece<'_> {
    fn begins_object(&self) -> bool {
        self.arguments.trim_start().starts_with('{')
    }
}

fn undecidable(what: &str) -> ModelError {
    unreadable(format!("the calls of the reply can't be told apart: the server sent {what}"))
}
