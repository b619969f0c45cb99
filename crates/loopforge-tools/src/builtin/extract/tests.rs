#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;

const PAGE: &str = r#"<html><head><title>T</title></head><body>
  <h1> Kettle
     Pro </h1><span class="price">￥1,299.00</span><span class="old">原价 ¥1,599</span>
  <ul><li>red</li><li>blue</li><li></li></ul>
  <a class="buy" href="/buy?id=1">buy</a><span class="stock">有货</span><span class="sold">已售 1.2万 件</span>
  <time datetime="2026-11-30">yesterday</time><p class="until">优惠至 3月5日</p><i class="n">询价</i>
</body></html>"#;

fn run(arguments: Json) -> ToolResult {
    extract(arguments).unwrap_or_else(|failure| failure)
}

#[test]
fn takes_fields_of_every_kind_with_their_text() {
    let result = run(json!({ "html": { "body": PAGE, "url": "https://shop.example/p/1", "status": 200 }, "fields": {
        "title": "h1",
        "price": { "css": [".new-price", ".price"], "kind": "price", "required": true },
        "colours": { "css": "li", "all": true },
        "buy": { "css": ".buy", "kind": "url" },
        "stock": { "css": ".stock", "kind": "bool" },
        "sold": { "css": ".sold", "kind": "integer" },
        "day": { "css": "time", "attr": "datetime", "kind": "date" },
        "until": { "css": ".until", "kind": "date" },
        "id": { "css": ".buy", "attr": "href", "regex": "id=(\\d+)" },
        "weight": { "css": ".weight", "kind": "number" },
        "ask": { "css": ".n", "kind": "price", "default": "on request" },
    }}));
    assert!(result.is_ok(), "{:?}", result.error);
    assert_eq!(
        result.data,
        json!({
            "title": "Kettle Pro",
            "price": { "value": 1299, "amount": "1299.00", "currency": "CNY", "text": "￥1,299.00" },
            "colours": ["red", "blue"],
            "buy": { "value": "https://shop.example/buy?id=1", "text": "/buy?id=1" },
            "stock": { "value": true, "text": "有货" },
            "sold": { "value": 12000, "decimal": "12000", "text": "已售 1.2万 件" },
            "day": { "value": "2026-11-30", "year": 2026, "month": 11, "day": 30, "text": "2026-11-30" },
            "until": { "value": "--03-05", "year": null, "month": 3, "day": 5, "text": "优惠至 3月5日" },
            "id": "1",
            "weight": null,
            "ask": "on request",
            "missing": ["ask", "weight"],
        })
    );
    assert_eq!(result.marks, ["field `colours`: 1 of the matches left out, since the element is empty"]);
}

#[test]
fn a_required_field_that_is_missing_fails_and_names_field_and_selector() {
    let result = run(json!({ "html": PAGE, "fields": {
        "title": "h1",
        "price": { "css": [".cost", ".n"], "kind": "price", "required": true },
    }}));
    assert_eq!(result.code, Code::MalformedOutput);
    let error = result.error.unwrap();
    assert!(
        error.contains("field `price`: `.cost` matches nothing, `.n` matches, but `询价` can't be read as a price"),
        "{error}"
    );
    assert_eq!(result.data["title"], "Kettle Pro");
}

#[test]
fn only_the_first_match_counts_so_that_no_other_product_s_price_slips_in() {
    let html = "<b class=p>询价</b><b class=p>¥5</b>";
    let result = run(json!({ "html": html, "fields": { "p": { "css": ".p", "kind": "price" } } }));
    assert_eq!(result.data, json!({ "p": null, "missing": ["p"] }));
    assert!(result.meaning_of_empty.is_some());
}

#[test]
fn the_task_says_whose_sign_it_is() {
    for (text, currency) in [("¥3,980", "JPY"), ("3980", "JPY"), ("$5", "JPY"), ("US$5", "USD"), ("399元", "CNY")] {
        let rule = json!({ "css": "p", "kind": "price", "currency": "JPY" });
        let result = run(json!({ "html": format!("<p>{text}"), "fields": { "p": rule } }));
        assert_eq!(result.data["p"]["currency"], currency, "{text}");
    }
}

#[test]
fn bad_arguments_are_refused_by_name() {
    for (fields, word) in [
        (json!({ "a": "p[[" }), "`p[[` is not a CSS selector"),
        (json!({ "a": { "css": "p", "regex": "(" } }), "`regex` is not a regular expression"),
        (json!({ "missing": "p" }), "choose another name"),
        (json!({ "a": { "css": [] } }), "`css` is an empty list"),
    ] {
        let result = run(json!({ "html": PAGE, "fields": fields }));
        assert_eq!(result.code, Code::InvalidArgument);
        assert!(result.error.as_deref().unwrap().contains(word), "{:?}", result.error);
    }
    let result = run(json!({ "html": PAGE, "fields": { "a": "p" }, "base_url": "nowhere" }));
    assert!(result.error.unwrap().contains("`base_url`"));
}

#[test]
fn the_schema_is_closed_and_accepts_the_short_forms() {
    let schema = &Extract::new().contract.input_schema;
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["required"], json!(["html", "fields"]));
}

#[test]
fn deep_nesting_is_survived() {
    let html = format!("{}<b>x</b>", "<div>".repeat(2_000));
    let result = run(json!({ "html": html, "fields": { "b": "div b" } }));
    assert_eq!(result.data["b"], "x");
    let deeper = run(json!({ "html": "<div>".repeat(20_000), "fields": { "b": "div b" } }));
    assert_eq!(deeper.code, Code::MalformedOutput);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn never_panics(
        html in "([<>/a-z\"'= ￥0-9.,万年月日\u{0}-\u{1f}]|<div class=p>|</div>|<table>|<svg>|<template>|<!--|&amp;|&#0;){0,60}",
        css in "[a-z.#\\[\\]()=\"':>+~*, 0-9|^$-]{0,16}|(:not|:is|:has|:nth-child)\\([a-z0-9n+ .]{0,6}\\)",
        regex in proptest::option::of("[a-z0-9().*+?\\[\\]\\\\|^$]{0,8}"),
        kind in proptest::sample::select(vec!["text", "number", "integer", "price", "date", "url", "bool"]),
        all in any::<bool>(),
    ) {
        let mut rule = json!({ "css": css, "kind": kind, "all": all });
        if let Some(regex) = regex {
            rule["regex"] = json!(regex);
        }
        let fields = json!({ "a": rule, "b": { "css": "*", "kind": kind, "all": true } });
        let result = run(json!({ "html": html, "fields": fields }));
        prop_assert!(matches!(result.code, Code::Success | Code::InvalidArgument));
    }

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>(), number in "[0-9０-９.,' \u{a0}万千亿kw¥$€元年月日/-]{0,20}") {
        for text in [&text, &number] {
            for kind in [Kind::Text, Kind::Number, Kind::Integer, Kind::Price, Kind::Date, Kind::Url, Kind::Bool] {
                if let Some(Json::Object(read)) = kind.read(text, None, None) {
                    prop_assert_eq!(&read["text"], text.as_str());
                }
            }
        }
    }
}
