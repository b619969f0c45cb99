//! The HTML of a report.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#d0d7de;--head:#f6f8fa;--link:#0550ae}\
@media(prefers-color-scheme:dark){:root{--line:#3d444d;--head:#161b22;--link:#79b8ff}}\
body{margin:0 auto;max-width:60rem;padding:1.5rem;font:1rem/1.6 system-ui,sans-serif;overflow-wrap:anywhere}\
h1,h2,h3{line-height:1.25}h2{margin-top:2rem;padding-bottom:.3rem;border-bottom:1px solid var(--line)}\
a{color:var(--link)}\
table{display:block;width:max-content;max-width:100%;overflow-x:auto;border-collapse:collapse}\
th,td{padding:.4rem .7rem;border:1px solid var(--line);text-align:left;vertical-align:top;min-width:4rem}\
th{background:var(--head)}\
pre{overflow-x:auto;padding:.8rem;background:var(--head)}blockquote{margin-left:0;padding-left:1rem;border-left:3px solid var(--line)}\
@media print{body{max-width:none}a{color:inherit}}";

/// A complete page. Markup within the Markdown shows as text, pictures become links, and links lead only to the web.
pub(super) fn page(title: &str, markdown: &str) -> String {
    let events = Parser::new_ext(markdown, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH).map(tame);
    let mut body = String::with_capacity(markdown.len() * 2);
    html::push_html(&mut body, events);
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

fn tame(event: Event<'_>) -> Event<'_> {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        Event::Start(Tag::Link { link_type, dest_url, title, id } | Tag::Image { link_type, dest_url, title, id }) => {
            let dest_url = if is_safe(&dest_url) { dest_url } else { "#".into() };
            Event::Start(Tag::Link { link_type, dest_url, title, id })
        }
        Event::End(TagEnd::Image) => Event::End(TagEnd::Link),
        other => other,
    }
}

/// Whether a link has a harmless scheme, or none.
fn is_safe(url: &str) -> bool {
    let url = url.trim();
    match url.find([':', '/', '?', '#']) {
        Some(end) if url[end..].starts_with(':') => {
            ["http", "https", "mailto"].iter().any(|scheme| url[..end].eq_ignore_ascii_case(scheme))
        }
        _ => true,
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
