//! Handles as they are written.
#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::json;

use super::{Handle, resolve};
use crate::id::{ActionNo, StepNo};
use crate::record::ActionId;

#[test]
fn only_a_text_that_is_nothing_but_a_handle_is_one() {
    for text in ["@12.0", "@12.0/body", "@1.10/a~1b/0"] {
        assert_eq!(Handle::read(text).unwrap().to_string(), text);
    }
    for text in [
        "",
        "@",
        "12.0",
        "@12",
        "@12.",
        "@.0",
        "@a.0",
        "@12.0 ",
        "@-1.0",
        "@12.0.1",
        "@someone",
        "see @12.0",
        "@１２.0",
    ] {
        assert_eq!(Handle::read(text), None, "{text}");
    }
}

#[test]
fn results_take_the_place_of_their_handles_and_missing_ones_are_named() {
    let result = |action: ActionId| {
        Ok((action == ActionId { step: StepNo(3), action: ActionNo(1) })
            .then(|| json!({ "body": "399元", "n": [1, 2] })))
    };
    let mut value = json!({ "html": "@3.1/body", "all": ["@3.1", "a@3.1"], "n": "@3.1/n/1" });
    resolve(&mut value, &result).unwrap().unwrap();
    assert_eq!(value, json!({ "html": "399元", "all": [{ "body": "399元", "n": [1, 2] }, "a@3.1"], "n": 2 }));
    assert!(resolve(&mut json!("@4.0"), &result).unwrap().unwrap_err().contains("`@4.0`"));
    assert!(resolve(&mut json!("@3.1/title"), &result).unwrap().unwrap_err().contains("nothing at `/title`"));
}
