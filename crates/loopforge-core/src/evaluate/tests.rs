#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use serde_json::json;

use super::grounding::{Grounding, Known};

fn orders() -> Grounding {
    Grounding::compile(&BTreeMap::from([("order".to_owned(), "ORD-[0-9]+".to_owned())])).unwrap()
}

#[test]
fn an_identifier_that_was_never_obtained_is_named_with_the_nearest_real_one() {
    let mut known = Known::default();
    orders().learn(&json!({ "orders": [{ "id": "ORD-1001" }, { "note": "see ORD-2002, 已发货" }] }), &mut known);
    let found = orders().ungrounded(&json!({ "text": "您的订单 ORD-1002 已退款" }), &known).unwrap();
    assert_eq!((found.identifier.as_str(), found.nearest.as_deref()), ("ORD-1002", Some("ORD-1001")));
    assert_eq!(orders().ungrounded(&json!(["ORD-2002", { "ORD-1001": 1 }]), &known), None);
}

#[test]
fn a_longer_identifier_is_not_grounded_by_a_shorter_one() {
    let mut known = Known::default();
    orders().learn(&json!("ORD-12"), &mut known);
    assert_eq!(orders().ungrounded(&json!("ORD-123"), &known).unwrap().identifier, "ORD-123");
}

#[test]
fn a_pattern_that_is_none_is_named() {
    let (kind, _) = Grounding::compile(&BTreeMap::from([("x".to_owned(), "(".to_owned())])).unwrap_err();
    assert_eq!(kind, "x");
}
