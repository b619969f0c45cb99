#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;

fn run(arguments: Json) -> ToolResult {
    diff(arguments).unwrap_or_else(|failure| failure)
}

fn price(amount: &str, value: f64, text: &str) -> Json {
    json!({ "amount": amount, "value": value, "currency": "CNY", "text": text })
}

#[test]
fn records_are_compared_field_by_field() {
    let before = json!({
        "/a": { "title": "A", "price": price("399.00", 399.0, "￥399.00"), "seen": 1, "tags": ["x"] },
        "/b": { "title": "B" },
        "/gone": { "title": "G" },
        "/same": { "price": price("5", 5.0, "5元"), "n": 1 },
    });
    let after = json!({
        "/a": { "title": "A", "price": price("349", 349.0, "¥349"), "seen": 2, "tags": ["x", "y"] },
        "/b": { "title": "B", "stock": true },
        "/new": { "title": "N" },
        "/same": { "price": price("5.00", 5.0, "￥5.00"), "n": 1.0 },
    });
    let result = run(json!({ "before": before, "after": after, "ignore": ["seen"] }));
    assert_eq!(
        result.data,
        json!({
            "equal": false,
            "added": [{ "key": "/new", "value": { "title": "N" } }],
            "removed": [{ "key": "/gone", "value": { "title": "G" } }],
            "changed": [
                { "key": "/a", "field": "price", "from": price("399.00", 399.0, "￥399.00"), "to": price("349", 349.0, "¥349") },
                { "key": "/a", "field": "tags", "from": ["x"], "to": ["x", "y"] },
                { "key": "/b", "field": "stock", "from": null, "to": true },
            ],
            "unchanged": 1,
        })
    );
}

#[test]
fn prices_are_compared_exactly_and_with_their_currency() {
    let changes = |from: Json, to: Json| {
        run(json!({ "before": { "k": from }, "after": { "k": to } })).data["changed"].as_array().unwrap().len()
    };
    // One cent beyond what a float can tell.
    assert_eq!(
        changes(price("90071992547409.93", 90071992547409.93, "a"), price("90071992547409.94", 90071992547409.93, "a")),
        1
    );
    let mut yen = price("5", 5.0, "¥5");
    yen["currency"] = json!("JPY");
    assert_eq!(changes(price("5", 5.0, "¥5"), yen), 1);
    assert_eq!(changes(json!(1), json!(1.0)), 0);
    assert_eq!(changes(json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_u64)), 1);
    assert_eq!(changes(json!("1"), json!(1)), 1);
    assert_eq!(changes(json!({ "a": { "b": 1, "c": 2 } }), json!({ "a": { "b": 2, "c": 3 } })), 2);
    let nested = run(json!({ "before": { "k": { "a": { "b": 1 } } }, "after": { "k": { "a": { "b": 2 } } } }));
    assert_eq!(nested.data["changed"][0]["field"], "a.b");
    let ignored = run(
        json!({ "before": { "k": { "a": { "b": 1 } } }, "after": { "k": { "a": { "b": 2 } } }, "ignore": ["a.b"] }),
    );
    assert_eq!(ignored.data["equal"], true);
}

#[test]
fn the_first_run_has_nothing_to_compare_with() {
    let result = run(json!({ "before": null, "after": { "/a": 1 } }));
    assert_eq!(result.data["added"], json!([{ "key": "/a", "value": 1 }]));
    assert_eq!(run(json!({ "before": null, "after": null })).meaning_of_empty.as_deref(), Some("nothing changed"));
}

#[test]
fn lists_with_and_without_a_key() {
    let before = json!([{ "id": 1, "n": "a" }, { "id": 2, "n": "b" }]);
    let after = json!([{ "id": 2, "n": "c" }, { "id": 1, "n": "a" }]);
    let keyed = run(json!({ "before": before, "after": after, "key": "id" }));
    assert_eq!(keyed.data["changed"], json!([{ "key": "2", "field": "n", "from": "b", "to": "c" }]));
    let bags = run(json!({ "before": ["a", "b", "b"], "after": ["b", "c", "a"] }));
    assert_eq!(bags.data, json!({ "equal": false, "added": ["c"], "removed": ["b"], "changed": [], "unchanged": 2 }));
    let missing = run(json!({ "before": before, "after": [{}], "key": "id" }));
    assert!(missing.error.unwrap().contains("item 0 of `after` has no plain value under `id`"));
    let twice = run(json!({ "before": before, "after": [{ "id": 1 }, { "id": 1 }], "key": "id" }));
    assert!(twice.error.unwrap().contains("two items"));
}

#[test]
fn texts_give_a_unified_diff() {
    let result = run(json!({ "before": "a\nb\nc\n", "after": "a\nB\nc\n" }));
    assert_eq!((&result.data["added_lines"], &result.data["removed_lines"]), (&json!(1), &json!(1)));
    assert_eq!(result.data["diff"], "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n");
    assert_eq!(
        run(json!({ "before": "x", "after": 1 })).error.unwrap(),
        "`before` is a text and `after` is a number: give two objects, two lists or two texts"
    );
    let long = "x\n".repeat(MOST_LINES + 1);
    assert!(run(json!({ "before": long, "after": "" })).error.unwrap().contains("in parts"));
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        "[a-c]{0,3}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
            prop::collection::btree_map("[a-c]{0,2}|value|text|amount", inner, 0..5)
                .prop_map(|map| Json::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn nothing_differs_from_itself(value in any_json()) {
        if !matches!(value, Json::Number(_) | Json::Bool(_)) {
            let result = run(json!({ "before": value, "after": value }));
            prop_assert_eq!(&result.data["equal"], true);
        }
    }

    #[test]
    fn what_is_added_one_way_is_removed_the_other(left in any_json(), right in any_json()) {
        let there = run(json!({ "before": left, "after": right }));
        let back = run(json!({ "before": right, "after": left }));
        prop_assert_eq!(there.code, back.code);
        if there.is_ok() && there.data.get("added").is_some() {
            let count = |data: &Json, field: &str| data[field].as_array().map(Vec::len);
            prop_assert_eq!(count(&there.data, "added"), count(&back.data, "removed"));
            prop_assert_eq!(count(&there.data, "changed"), count(&back.data, "changed"));
        }
    }
}
