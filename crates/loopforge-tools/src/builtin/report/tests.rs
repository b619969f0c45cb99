#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

fn sections(value: Json) -> String {
    let sections: Vec<Section> = serde_json::from_value(value).unwrap();
    markdown::from_sections(&sections)
}

#[test]
fn sections_become_headings_texts_tables_and_lists() {
    let text = sections(json!([
        { "heading": "Changes", "text": "Two *changes*." },
        { "table": { "columns": ["page", "from", "to"], "rows": [
            { "page": "https://shop.example/p_1", "from": { "value": 399, "text": "￥399.00" }, "to": null },
            ["a|b", 1.5, ["x", "y"]],
        ] } },
        { "heading": "Rows", "table": [{ "b": 1, "a": "1. <b>" }, { "a": true }] },
        { "list": ["- one", "# two", { "k": 1 }] },
        { "heading": "Empty", "table": [], "list": [] },
    ]));
    assert_eq!(
        text,
        "## Changes\n\nTwo *changes*.\n\n\
         | page | from | to |\n| --- | --- | --- |\n| <https://shop.example/p_1> | ￥399.00 |  |\n| a\\|b | 1.5 | x, y |\n\n\
         ## Rows\n\n| a | b |\n| --- | --- |\n| 1\\. \\<b\\> | 1 |\n| true |  |\n\n\
         - \\- one\n- \\# two\n- {\"k\":1}\n\n\
         ## Empty\n\n*(none)*\n\n*(none)*"
    );
}

#[test]
fn templates_escape_what_they_insert_and_know_no_unknown_names() {
    let data = json!({ "name": "*x* <i>", "rows": [1, 2] });
    let render = |template: &str| markdown::from_template(template, &data);
    assert_eq!(
        render("**{{ name }}** {{ '*y*'|safe }} {% for r in rows %}{{ r }};{% endfor %}").unwrap(),
        "**\\*x\\* \\<i\\>** *y* 1;2;"
    );
    assert!(render("{{ nobody }}").unwrap_err().error.unwrap().contains("undefined"));
    assert!(render("{% for %}").unwrap_err().error.unwrap().contains("`template` can't be rendered"));
    let endless = "{% for a in range(9999) %}{% for b in range(9999) %}{{ a }}{% endfor %}{% endfor %}";
    assert!(render(endless).unwrap_err().error.unwrap().contains("fuel"));
}

#[test]
fn html_shows_markup_as_text_and_loads_nothing() {
    let markdown = "# T\n\n<script>alert(1)</script>\n\na <img src=x onerror=y> ![p](http://a.test/p.png) \
                    [j](javascript:alert(1)) [k](JaVaScript:x) [ok](https://a.test/?a=1&b=2) [rel](b/c:d)\n\n| a |\n| - |\n| `<x>` |\n";
    let page = html::page("T & <T>", markdown);
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<title>T &amp; &lt;T&gt;</title>"));
    assert!(
        page.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && page.contains("&lt;img src=x onerror=y&gt;"),
        "{page}"
    );
    for gone in ["<script", "<img", "javascript:", "src="] {
        let body = &page[page.find("<main>").unwrap()..].replace("&lt;img src=x", "");
        assert!(!body.to_lowercase().contains(gone), "{gone}: {body}");
    }
    assert!(page.contains("<a href=\"http://a.test/p.png\">p</a>"));
    assert!(
        page.contains("<a href=\"https://a.test/?a=1&amp;b=2\">ok</a>") && page.contains("<a href=\"b/c:d\">rel</a>")
    );
    assert!(page.contains("<td><code>&lt;x&gt;</code></td>"));
}
