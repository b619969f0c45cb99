//! Names of tools, as providers allow them.

use std::collections::{BTreeMap, HashSet};

use loopforge_core::model::ToolSchema;

/// The longest name that all providers take.
const LONGEST: usize = 64;

/// The names of a request's tools in both directions.
///
/// Providers allow letters, digits, `_` and `-`, 64 of them. Other names are translated, and no two become the same.
#[derive(Debug, Default)]
pub(crate) struct Names {
    to_wire: BTreeMap<String, String>,
    to_own: BTreeMap<String, String>,
}

impl Names {
    pub(crate) fn of(tools: &[ToolSchema]) -> Self {
        let mut names = Self::default();
        let mut taken: HashSet<String> =
            tools.iter().filter(|tool| is_allowed(&tool.name)).map(|tool| tool.name.clone()).collect();
        for tool in tools.iter().filter(|tool| !is_allowed(&tool.name)) {
            let plain: String =
                tool.name.chars().map(|letter| if is_letter(letter) { letter } else { '_' }).take(LONGEST).collect();
            let mut wire = plain.clone();
            let mut number = 2;
            while wire.is_empty() || !taken.insert(wire.clone()) {
                let end = format!("_{number}");
                wire = plain.chars().take(LONGEST - end.len()).collect::<String>() + &end;
                number += 1;
            }
            names.to_own.insert(wire.clone(), tool.name.clone());
            names.to_wire.insert(tool.name.clone(), wire);
        }
        names
    }

    /// The name to send.
    pub(crate) fn wire<'n>(&'n self, own: &'n str) -> &'n str {
        self.to_wire.get(own).map_or(own, String::as_str)
    }

    /// The task's name for what came. What the model made up stays.
    pub(crate) fn own<'n>(&'n self, wire: &'n str) -> &'n str {
        self.to_own.get(wire).map_or(wire, String::as_str)
    }
}

fn is_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == '-'
}

fn is_allowed(name: &str) -> bool {
    !name.is_empty() && name.len() <= LONGEST && name.chars().all(is_letter)
}

#[cfg(test)]
mod tests {
    use loopforge_core::json::Json;

    use super::*;

    #[test]
    fn names_that_are_not_allowed_are_translated_back_and_forth() {
        let long = "x".repeat(80);
        let own = ["fetch", "a_b", "a.b", "a/b", "价格", &long, &format!("{long}y")];
        let tools: Vec<ToolSchema> = own
            .iter()
            .map(|name| ToolSchema { name: (*name).to_owned(), description: String::new(), parameters: Json::Null })
            .collect();
        let names = Names::of(&tools);
        let wire: HashSet<&str> = own.iter().map(|name| names.wire(name)).collect();
        assert_eq!(wire.len(), own.len());
        for name in own {
            assert!(is_allowed(names.wire(name)), "{}", names.wire(name));
            assert_eq!(names.own(names.wire(name)), name);
        }
        assert_eq!(names.wire("fetch"), "fetch");
        assert_eq!(names.own("made_up"), "made_up");
    }
}
