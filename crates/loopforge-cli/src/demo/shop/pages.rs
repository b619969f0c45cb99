//! Turns products into the bytes of their pages.

use std::sync::LazyLock;

use axum::http::HeaderValue;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment};
use serde::Serialize;
use serde_json::json;

use super::catalogue::{Day, Layout, Product, products};

/// A whole page.
#[derive(Debug, Clone)]
pub(super) struct Page {
    /// The `Content-Type`.
    pub(super) content_type: HeaderValue,
    /// The document, encoded.
    pub(super) body: Vec<u8>,
}

const UTF_8: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const GBK: HeaderValue = HeaderValue::from_static("text/html; charset=GBK");
/// The document itself says which encoding it is in.
const UNSAID: HeaderValue = HeaderValue::from_static("text/html");

/// A review, as noise around what matters. Prices and numbers in it are meant to mislead a careless parser.
#[derive(Debug, Clone, Copy, Serialize)]
struct Review {
    by: &'static str,
    text: &'static str,
}

const ENGLISH_REVIEWS: [Review; 5] = [
    Review {
        by: "Dana K.",
        text: "Arrived in 2 days. Paid $10.00 less elsewhere last year, but this one is better made.",
    },
    Review { by: "M. Okafor", text: "Exactly as described; 5 of 5." },
    Review { by: "Jörg P.", text: "Third one we've bought. The first has lasted since 2019." },
    Review { by: "Sam", text: "Good, though the box was dented. Support refunded £3.50 at once." },
    Review { by: "Priya R.", text: "Does what it should. Would have liked a longer manual than 4 pages." },
];
const CHINESE_REVIEWS: [Review; 5] = [
    Review { by: "匿**名", text: "物流很快，两天就到了，比实体店便宜￥20.00。" },
    Review { by: "小**鱼", text: "第三次回购，质量一如既往。" },
    Review { by: "t**8", text: "包装完好，客服回复及时，五星好评。" },
    Review { by: "老**王", text: "一般般，降价了￥5.00 也不给退差价。" },
    Review { by: "晴**天", text: "和描述一致，家里老人很喜欢。" },
];

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut templates = Environment::new();
    templates.set_auto_escape_callback(|_| AutoEscape::Html);
    for (name, source) in [
        ("classic", include_str!("pages/classic.html")),
        ("table", include_str!("pages/table.html")),
        ("chinese", include_str!("pages/chinese.html")),
        ("chinese_gbk", include_str!("pages/chinese_gbk.html")),
        ("modern", include_str!("pages/modern.html")),
        ("relaunched", include_str!("pages/relaunched.html")),
        ("not_found", include_str!("pages/not_found.html")),
        ("index", include_str!("pages/index.html")),
    ] {
        templates.add_template(name, source).expect("the templates are part of the program and rendered by a test");
    }
    templates
});

fn render(name: &str, values: impl Serialize) -> String {
    TEMPLATES
        .get_template(name)
        .and_then(|template| template.render(Serde(values)))
        .expect("the templates are part of the program and rendered by a test")
}

/// The page of a product.
pub(super) fn product(product: &Product, day: Day, base: &str) -> Page {
    let (template, reviews, content_type) = match product.layout {
        Layout::Classic => ("classic", &ENGLISH_REVIEWS, UTF_8),
        Layout::Table => ("table", &ENGLISH_REVIEWS, UNSAID),
        Layout::Chinese => ("chinese", &CHINESE_REVIEWS, UTF_8),
        Layout::ChineseGbk => ("chinese_gbk", &CHINESE_REVIEWS, if says_encoding(product) { GBK } else { UNSAID }),
        Layout::Modern => ("modern", &ENGLISH_REVIEWS, UTF_8),
        Layout::Relaunched => ("relaunched", &CHINESE_REVIEWS, UTF_8),
    };
    let place = usize::from(product.sku.bytes().fold(0, u8::wrapping_add));
    let reviews: Vec<Review> = reviews.iter().copied().cycle().skip(place % reviews.len()).take(3).collect();
    let cents = product.cents();
    let amount = format!("{}.{:02}", cents / 100, cents % 100);
    let html = render(
        template,
        json!({
            "product": product,
            "amount": amount,
            "cents": cents,
            "json_ld": json_ld(product, &amount),
            "reviews": reviews,
            "related": related(product, day),
            "date": day.date(),
            "base": base,
        }),
    );
    let body = match product.layout {
        Layout::ChineseGbk => encoding_rs::GBK.encode(&html).0.into_owned(),
        _ => html.into_bytes(),
    };
    Page { content_type, body }
}

/// The page of what doesn't exist.
pub(super) fn not_found() -> Page {
    Page { content_type: UTF_8, body: render("not_found", json!({})).into_bytes() }
}

/// The list of all products, with links.
pub(super) fn index(day: Day) -> Page {
    let html = render("index", json!({ "products": products(day) }));
    Page { content_type: UTF_8, body: html.into_bytes() }
}

/// Half of the GBK pages are marked by their header, the other half only in the document.
fn says_encoding(product: &Product) -> bool {
    product.cents() % 200 < 100
}

/// Up to four others of the same layout, with names and prices of the first day: noise that must not look like a change.
fn related(product: &Product, day: Day) -> Vec<&'static Product> {
    products(Day::First)
        .iter()
        .filter(|other| other.layout == product.layout && other.path != product.path && other.is_sold_on(day))
        .take(4)
        .collect()
}

/// The product as JSON-LD, safe inside a `script` element.
fn json_ld(product: &Product, amount: &str) -> String {
    let availability = if product.stock > 0 { "https://schema.org/InStock" } else { "https://schema.org/OutOfStock" };
    json!({
        "@context": "https://schema.org",
        "@type": "Product",
        "name": product.name,
        "sku": product.sku,
        "description": product.description,
        "offers": { "@type": "Offer", "price": amount, "priceCurrency": "USD", "availability": availability },
    })
    .to_string()
    .replace('<', "\\u003c")
}
