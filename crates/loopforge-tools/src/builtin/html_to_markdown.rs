//! `html_to_markdown`.

use async_trait::async_trait;
use dom_query::{Document, Matcher};
use htmd::HtmlToMarkdown;
use loopforge_core::json::Json;
use loopforge_core::tool::{Code, Contract, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::arguments::{self, invalid};
use super::compute;
use super::page::{self, Page};
use crate::{CallContext, Tool};

/// What carries no content of its own.
const LEFT_OUT: &str =
    "script, style, nav, noscript, template, iframe, object, embed, svg, canvas, form, button, dialog";
/// The converter walks the tree by calling itself; what is nested deeper is given as plain text.
const DEEPEST: usize = 256;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The page: its HTML, or what `http_get` returned.
    html: Page,
    /// A CSS selector of the part to convert; the whole page unless set.
    #[serde(default)]
    css: Option<String>,
}

/// Turns HTML into Markdown.
#[derive(Debug)]
pub(super) struct HtmlToMarkdownTool {
    contract: Contract,
}

impl HtmlToMarkdownTool {
    pub(super) fn new() -> Self {
        let description = "Turns an HTML page, or a part of it, into Markdown, without scripts, styles and navigation.";
        let mut contract = Contract::read(description, arguments::schema::<Arguments>());
        contract.deterministic = true;
        contract.key_fields = vec!["/title".to_owned()];
        contract.meaning_of_empty = Some("the page has no text".to_owned());
        Self { contract }
    }
}

#[async_trait]
impl Tool for HtmlToMarkdownTool {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    async fn call(&self, arguments: Json, context: &CallContext) -> ToolResult {
        compute::blocking(context, move || convert(arguments).unwrap_or_else(|failure| failure)).await
    }
}

fn convert(arguments: Json) -> Result<ToolResult, ToolResult> {
    let arguments: Arguments = arguments::read(arguments)?;
    let matcher = match &arguments.css {
        Some(css) => {
            Some(Matcher::new(css).map_err(|_| invalid(format!("`css` is `{css}`, which is no CSS selector")))?)
        }
        None => None,
    };
    let (html, _) = arguments.html.into_parts();
    page::check_nesting(&html)?;
    let document = Document::from(html);
    let title = document.select("title").first().text().split_whitespace().collect::<Vec<_>>().join(" ");
    document.select(LEFT_OUT).remove();
    let part = match &matcher {
        Some(matcher) => document.select_matcher(matcher),
        None => document.select("body"),
    };
    if let Some(css) = arguments.css.filter(|_| part.is_empty()) {
        return Err(ToolResult::failure(Code::MalformedOutput, format!("`{css}` matches nothing in the page")));
    }
    let mut marks = Vec::new();
    let mut pieces = Vec::new();
    for node in part.nodes() {
        if deeper_than(node, DEEPEST) {
            marks.push(format!("nested more than {DEEPEST} deep: given as plain text"));
            pieces.push(node.text().split_whitespace().collect::<Vec<_>>().join(" "));
            continue;
        }
        let converted = HtmlToMarkdown::new().convert(&node.html());
        pieces.push(converted.map_err(|error| {
            ToolResult::failure(Code::MalformedOutput, format!("the page can't be converted: {error}"))
        })?);
    }
    let markdown = pieces.join("\n\n").trim().to_owned();
    let mut result = ToolResult::success(json!({ "title": title, "bytes": markdown.len(), "markdown": markdown }));
    result.marks = marks;
    if result.data["bytes"] == 0 {
        result.meaning_of_empty = Some("the page has no text".to_owned());
    }
    Ok(result)
}

/// Whether something below `node` is nested more than `limit` deep.
fn deeper_than(node: &dom_query::NodeRef<'_>, limit: usize) -> bool {
    let mut level = vec![*node];
    for _ in 0..limit {
        level = level.iter().flat_map(|node| node.children_it(false)).collect();
        if level.is_empty() {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    fn run(arguments: Json) -> ToolResult {
        convert(arguments).unwrap_or_else(|failure| failure)
    }

    #[test]
    fn content_stays_and_the_rest_goes() {
        let html = "<title>A\n page</title><nav>menu</nav><script>x()</script><style>a{}</style>
            <main><h1>价格</h1><p>A <b>good</b> <a href='/p'>kettle</a></p><ul><li>one</li></ul></main><footer>f</footer>";
        let whole = run(json!({ "html": { "body": html, "url": "http://a.test/" } })).data;
        assert_eq!(whole["title"], "A page");
        let markdown = whole["markdown"].as_str().unwrap();
        assert!(markdown.starts_with("# 价格\n\nA **good** [kettle](/p)\n\n"), "{markdown}");
        for gone in ["menu", "x()", "a{}"] {
            assert!(!markdown.contains(gone), "{markdown}");
        }
        let part = run(json!({ "html": html, "css": "h1" })).data;
        assert_eq!(part["markdown"], "# 价格");
        assert_eq!(run(json!({ "html": html, "css": ".none" })).code, Code::MalformedOutput);
        assert_eq!(run(json!({ "html": html, "css": "((" })).code, Code::InvalidArgument);
        assert!(run(json!({ "html": "" })).meaning_of_empty.is_some());
    }

    #[test]
    fn deep_nesting_becomes_plain_text() {
        for depth in [200, 300, 3000] {
            let result = run(json!({ "html": format!("{}x", "<div><span>".repeat(depth / 2)) }));
            assert_eq!(
                (result.data["markdown"].as_str(), result.marks.is_empty()),
                (Some("x"), depth == 200),
                "{depth}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn never_panics(html in "([<>/a-z\"'= 0-9.万\u{0}-\u{1f}]|<table>|<tr>|<td>|<ul>|<li>|<pre>|<code>|<a href=x>|<h1>|<!--|&amp;){0,60}") {
            let result = run(json!({ "html": html }));
            prop_assert!(result.is_ok());
        }
    }
}
