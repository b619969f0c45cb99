//! Values: taken apart and put together, compared, filled into templates, turned into tokens.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use loopforge_core::expression::{Scope, Template, Values};
use loopforge_core::id::{ActionNo, RunId, StepNo, StepToken};
use loopforge_core::json::{Json, canonical};
use loopforge_core::payload::{Blob, BlobCache, INLINE_LIMIT, Payload};
use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

/// Values of all shapes; texts on both sides of the limit, keys with the signs that JSON pointers escape.
fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        "[a-z元~/\"\\\\{}]{0,12}".prop_map(Json::from),
        (0usize..3).prop_map(|times| Json::from("长{}".repeat(times * INLINE_LIMIT / 3))),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Json::from),
            prop::collection::btree_map("[a-z~/0-9]{0,4}", inner, 0..8)
                .prop_map(|map| Json::Object(map.into_iter().collect())),
        ]
    })
}

fn cache(blobs: &[Blob]) -> BlobCache {
    let mut cache = BlobCache::default();
    for blob in blobs {
        cache.insert(blob.reference, &blob.bytes);
    }
    cache
}

proptest! {
    #[test]
    fn a_value_that_was_taken_apart_is_put_together_again(value in any_json()) {
        let mut blobs = Vec::new();
        let payload = Payload::stow(value.clone(), &mut blobs);
        prop_assert_eq!(payload.open(&cache(&blobs)).unwrap(), value.clone());
        prop_assert_eq!(payload.holes.len(), blobs.len());
        prop_assert!(payload.inline.to_string().len() <= 4 * INLINE_LIMIT, "what stays in the record is small");
        let mut again = Vec::new();
        prop_assert_eq!(Payload::stow(value, &mut again), payload);
        prop_assert_eq!(again, blobs);
    }

    #[test]
    fn an_item_of_a_list_is_the_same_alone(items in prop::collection::vec(any_json(), 0..6), position in 0usize..7) {
        let mut blobs = Vec::new();
        let payload = Payload::stow(Json::from(items.clone()), &mut blobs);
        let item = payload.item(position, &cache(&blobs)).unwrap();
        prop_assert_eq!(item, items.get(position).cloned().unwrap_or_default());
    }

    #[test]
    fn canonical_text_is_json_of_the_same_value_and_stays_canonical(value in any_json()) {
        let text = canonical(&value);
        let again: Json = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&again, &value);
        prop_assert_eq!(canonical(&again), text);
    }
}

/// The text `{}` and the object `{}`, both large enough to be kept apart, have the same bytes.
#[test]
fn a_text_that_looks_like_an_object_stays_a_text() {
    let object: Json = (0..200).map(|n| (format!("key{n:04}"), json!(n))).collect::<serde_json::Map<_, _>>().into();
    let text = Json::String(object.to_string());
    let mut blobs = Vec::new();
    let both = Payload::stow(json!([object, text]), &mut blobs);
    assert_eq!(both.open(&cache(&blobs)).unwrap(), json!([object, text]));
}

/// IDM-03
#[test]
fn arguments_that_mean_the_same_have_the_same_canonical_text() {
    let same = |one: &str, other: &str| {
        let read = |text: &str| canonical(&serde_json::from_str::<Json>(text).unwrap());
        read(one) == read(other)
    };
    assert!(same(r#"{"a":1,"b":{"c":2,"d":3}}"#, r#"{ "b": {"d":3, "c":2}, "a":1 }"#));
    assert!(same("1", "1.0"));
    assert!(same("0", "-0"));
    assert!(same("0", "-0.0"));
    assert!(same("[100]", "[1e2]"));
    assert!(same(r#""元""#, r#""\u5143""#));

    assert!(!same("9007199254740992", "9007199254740993"), "neighbours beyond 2^53 are different numbers");
    assert!(!same("18446744073709551615", "18446744073709551614"));
    assert!(!same("1", "\"1\""));
    assert!(!same("[1,2]", "[2,1]"));
    assert!(!same("null", "{}"));
    assert!(!same("0.1", "0.10000000000000002"));
}

/// IDM-03
#[test]
fn tokens_depend_on_what_names_an_effect_and_on_nothing_else() {
    let run = |number| RunId(Uuid::from_u128(number));
    let mut seen = BTreeSet::new();
    for (run, incarnation, step, action) in [
        (run(1), 0, 1, 0),
        (run(2), 0, 1, 0),
        (run(1), 1, 1, 0),
        (run(1), 0, 2, 0),
        (run(1), 0, 1, 1),
        (run(1), 0, 0, 1),
        // As digits one after the other these would be the same.
        (run(1), 0, 11, 1),
        (run(1), 0, 1, 11),
    ] {
        let token = || StepToken::of(run, incarnation, StepNo(step), ActionNo(action));
        assert_eq!(token(), token());
        assert_eq!(token().0.len(), 32);
        assert!(seen.insert(token()), "{step}.{action} of {run}");
    }
    // What stands in archives and at targets must be the same in every version.
    assert_eq!(StepToken::of(run(1), 0, StepNo(1), ActionNo(0)).0, FIRST_TOKEN);
}

const FIRST_TOKEN: &str = "00fdfa3708e68017a5b07121afa6566a";

fn fill(template: Json) -> Result<Json, String> {
    let values = Values::new(
        BTreeMap::from([
            ("n".to_owned(), Payload::inline(json!(7))),
            ("价".to_owned(), Payload::inline(json!("399元"))),
            ("page".to_owned(), Payload::inline(json!({ "url": "http://a/?q={x}", "tags": ["一", "二"] }))),
        ]),
        true,
    );
    let template = Template::compile(template).map_err(|error| error.to_string())?;
    template
        .fill(&Scope { values: &values, locals: &BTreeMap::new(), facts: &|_| None })
        .map_err(|error| error.to_string())
}

#[test]
fn one_expression_keeps_its_type_and_text_around_it_makes_text() {
    for (template, expected) in [
        (json!("${ inputs.n }"), json!(7)),
        (json!("${inputs.page.tags}"), json!(["一", "二"])),
        (json!("n is ${ inputs.n }"), json!("n is 7")),
        (json!("${ inputs.n }${ inputs.n }"), json!("77")),
        (json!("商品价格：${ inputs['价'] }。"), json!("商品价格：399元。")),
        (json!("${ inputs.page.url }"), json!("http://a/?q={x}")),
        (
            json!({ "a": ["${ inputs.n }", 1, null, { "b": "${ inputs.n > 3 }" }] }),
            json!({ "a": [7, 1, null, { "b": true }] }),
        ),
        (json!("$${ inputs.n }"), json!("${ inputs.n }")),
        (json!("costs $5 {or} $$6"), json!("costs $5 {or} $$6")),
        (json!("${ {'a': {'b': inputs.n}}.a.b }"), json!(7)),
        (json!("${ '}' + '{' }"), json!("}{")),
    ] {
        assert_eq!(fill(template.clone()), Ok(expected), "{template}");
    }
}

#[test]
fn what_has_no_value_or_no_end_is_told() {
    for (template, part) in [("${ inputs.absent }", "absent"), ("${ inputs.n", "}"), ("${ 1 + }", "")] {
        let told = fill(json!(template)).unwrap_err();
        assert!(told.contains(part), "{template}: {told}");
    }
}
