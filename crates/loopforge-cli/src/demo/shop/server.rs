//! The shop's door: answers requests by the script of the day and writes each one down.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::catalogue::{Behaviour, Day, Product, products};
use super::pages::{self, Page};
use super::reports::{Delivery, Reports};

/// The largest report that is taken.
const REPORT_LIMIT: usize = 4 << 20;

/// How the scripted faults are dosed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShopOptions {
    /// How long the slow page lets one wait.
    pub slow: Duration,
    /// What the rate-limited page asks for, in whole seconds.
    pub retry_after: Duration,
}

impl Default for ShopOptions {
    /// Slow is 3 s, and the rate-limited page asks for 2 s.
    fn default() -> Self {
        Self { slow: Duration::from_secs(3), retry_after: Duration::from_secs(2) }
    }
}

/// One request, as the shop saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// Since the shop's start.
    pub at: Duration,
    /// The day on which it came.
    pub day: Day,
    /// `GET`, `POST`.
    pub method: String,
    /// The path, without a query.
    pub path: String,
    /// The `Idempotency-Key`, where there was one.
    pub idempotency_key: Option<String>,
    /// What the shop answered.
    pub outcome: Outcome,
}

/// How the shop answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// With this status and a whole body.
    Status(u16),
    /// With 200 and half of the body, then the connection was broken off.
    CutOff,
}

/// A running shop. It stops when dropped.
#[derive(Debug)]
pub struct Shop {
    shared: Arc<Shared>,
    _stop: DropGuard,
}

#[derive(Debug)]
struct Shared {
    base: String,
    options: ShopOptions,
    started: Instant,
    /// A std mutex: no section holds it over an await.
    book: Mutex<Book>,
}

#[derive(Debug)]
struct Book {
    day: Day,
    /// Requests for each path on this day.
    asked: HashMap<String, u32>,
    log: Vec<Logged>,
    reports: Reports,
}

impl Shop {
    /// Opens the shop on a free port of 127.0.0.1. It serves as long as the runtime that it was opened in runs.
    ///
    /// # Errors
    /// When no port can be opened; nothing was started.
    pub async fn start(day: Day, options: ShopOptions) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let shared = Arc::new(Shared {
            base: format!("http://{}", listener.local_addr()?),
            options,
            started: Instant::now(),
            book: Mutex::new(Book { day, asked: HashMap::new(), log: Vec::new(), reports: Reports::default() }),
        });
        let stop = CancellationToken::new();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let serving = axum::serve(listener, router).with_graceful_shutdown(stop.clone().cancelled_owned());
        tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!(%error, "the demonstration's shop stopped serving");
            }
        });
        Ok(Self { shared, _stop: stop.drop_guard() })
    }

    /// Where it is: `http://127.0.0.1:PORT`, without a final `/`.
    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.shared.base
    }

    /// Where reports are delivered: `POST` with an `Idempotency-Key`. `GET` with the key behind a `/` tells whether one came.
    #[must_use]
    pub fn reports_url(&self) -> String {
        format!("{}/reports", self.shared.base)
    }

    /// The URLs of today's product list.
    #[must_use]
    pub fn product_urls(&self) -> Vec<String> {
        self.shared.product_urls(self.day())
    }

    /// The day that it is.
    #[must_use]
    pub fn day(&self) -> Day {
        self.shared.book().day
    }

    /// Makes it `day`. The faults that come once a day come again.
    pub fn set_day(&self, day: Day) {
        let mut book = self.shared.book();
        book.day = day;
        book.asked.clear();
    }

    /// Every request since the start, in the order in which they came.
    #[must_use]
    pub fn log(&self) -> Vec<Logged> {
        self.shared.book().log.clone()
    }

    /// Every report that was delivered, by key.
    #[must_use]
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.shared.book().reports.all()
    }
}

impl Shared {
    /// A panic elsewhere leaves the book readable: each entry is written whole.
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn product_urls(&self, day: Day) -> Vec<String> {
        products(day).iter().map(|product| format!("{}{}", self.base, product.path)).collect()
    }

    /// Writes a request down. Before the answer is sent, so that one whose sender died while waiting is in the log too.
    fn note(&self, method: &Method, path: &str, headers: &HeaderMap, outcome: Outcome) {
        let mut book = self.book();
        let entry = Logged {
            at: self.started.elapsed(),
            day: book.day,
            method: method.to_string(),
            path: path.to_owned(),
            idempotency_key: idempotency_key(headers).map(str::to_owned),
            outcome,
        };
        book.log.push(entry);
    }

    /// Counts a request for a product and says which day it is and how often it was asked for today.
    fn count(&self, path: &str) -> (Day, u32) {
        let mut book = self.book();
        let count = book.asked.entry(path.to_owned()).or_default();
        *count += 1;
        let count = *count;
        (book.day, count)
    }

    /// Looks up the answer to a `GET` of a page.
    fn page(&self, path: &str) -> Answer {
        let (day, count) = self.count(path);
        match path {
            "/" => return Answer::whole(pages::index(day)),
            "/urls.txt" => return Answer::text(self.product_urls(day).join("\n") + "\n"),
            _ => {}
        }
        match products(day).iter().find(|product| product.path == path && product.is_sold_on(day)) {
            Some(product) => self.product(product, day, count),
            None => Answer { status: StatusCode::NOT_FOUND, ..Answer::whole(pages::not_found()) },
        }
    }

    fn product(&self, product: &Product, day: Day, count: u32) -> Answer {
        let whole = Answer::whole(pages::product(product, day, &self.base));
        let first = count == 1;
        match product.behaviour {
            Some(Behaviour::RateLimited) if first => {
                let mut answer = Answer::refusal(StatusCode::TOO_MANY_REQUESTS, "too many requests\n");
                answer.retry_after = Some(self.options.retry_after);
                answer
            }
            Some(Behaviour::UnavailableOnce) if first => {
                Answer::refusal(StatusCode::SERVICE_UNAVAILABLE, "back in a moment\n")
            }
            Some(Behaviour::CutOff) if first => Answer { cut_off: true, ..whole },
            Some(Behaviour::Slow) => Answer { wait: self.options.slow, ..whole },
            Some(
                Behaviour::RateLimited
                | Behaviour::UnavailableOnce
                | Behaviour::CutOff
                | Behaviour::Restructured
                | Behaviour::Gone,
            )
            | None => whole,
        }
    }
}

/// What is answered to a `GET`.
#[derive(Debug)]
struct Answer {
    status: StatusCode,
    page: Page,
    wait: Duration,
    retry_after: Option<Duration>,
    cut_off: bool,
}

impl Answer {
    fn whole(page: Page) -> Self {
        Self { status: StatusCode::OK, page, wait: Duration::ZERO, retry_after: None, cut_off: false }
    }

    fn text(body: String) -> Self {
        let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
        Self::whole(Page { content_type, body: body.into_bytes() })
    }

    fn refusal(status: StatusCode, body: &str) -> Self {
        Self { status, ..Self::text(body.to_owned()) }
    }

    fn outcome(&self) -> Outcome {
        if self.cut_off { Outcome::CutOff } else { Outcome::Status(self.status.as_u16()) }
    }

    async fn send(self) -> Response {
        tokio::time::sleep(self.wait).await;
        let length = self.page.body.len();
        let body = if self.cut_off { broken_body(self.page.body) } else { Body::from(self.page.body) };
        let mut response = (self.status, [(CONTENT_TYPE, self.page.content_type)], body).into_response();
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
        if let Some(wait) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs()));
        }
        response
    }
}

/// Half of `whole`, then an error, at which the server breaks the connection off.
fn broken_body(mut whole: Vec<u8>) -> Body {
    whole.truncate(whole.len() / 2);
    let half = stream::once(async { Ok(Bytes::from(whole)) });
    let end = stream::once(async {
        // The server sends what it has whenever the body makes it wait; without that the error would swallow the half.
        tokio::task::yield_now().await;
        Err(io::Error::other("cut off by the script"))
    });
    Body::from_stream(half.chain(end))
}

async fn answer(State(shop): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let (outcome, response) = match (&parts.method, path) {
        (&Method::POST, "/reports") => {
            let response = take_report(&shop, &parts.headers, body).await;
            (Outcome::Status(response.status().as_u16()), response)
        }
        (&Method::GET, _) => {
            if let Some(key) = path.strip_prefix("/reports/") {
                let response = tell_report(&shop, key);
                (Outcome::Status(response.status().as_u16()), response)
            } else {
                let answer = shop.page(path);
                shop.note(&parts.method, path, &parts.headers, answer.outcome());
                return answer.send().await;
            }
        }
        _ => {
            let response =
                (StatusCode::METHOD_NOT_ALLOWED, "the shop knows GET, and POST of /reports\n").into_response();
            (Outcome::Status(response.status().as_u16()), response)
        }
    };
    shop.note(&parts.method, path, &parts.headers, outcome);
    response
}

async fn take_report(shop: &Shared, headers: &HeaderMap, body: Body) -> Response {
    let Some(key) = idempotency_key(headers) else {
        return reply(StatusCode::BAD_REQUEST, &json!({ "error": "a delivery needs an Idempotency-Key" }));
    };
    let Ok(body) = to_bytes(body, REPORT_LIMIT).await else {
        return reply(
            StatusCode::PAYLOAD_TOO_LARGE,
            &json!({ "error": "the report didn't arrive whole, or is over 4 MB" }),
        );
    };
    let mut book = shop.book();
    let delivery = book.reports.take(key, body.to_vec());
    let status = if delivery.times == 1 { StatusCode::CREATED } else { StatusCode::OK };
    reply(status, &receipt(delivery))
}

fn tell_report(shop: &Shared, key: &str) -> Response {
    match shop.book().reports.get(key) {
        Some(delivery) => reply(StatusCode::OK, &json!({ "happened": true, "result": receipt(delivery) })),
        None => reply(StatusCode::NOT_FOUND, &json!({ "happened": false })),
    }
}

fn receipt(delivery: &Delivery) -> serde_json::Value {
    json!({ "id": delivery.key, "bytes": delivery.body.len(), "deliveries": delivery.times })
}

fn reply(status: StatusCode, body: &serde_json::Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn idempotency_key(headers: &HeaderMap) -> Option<&str> {
    headers.get("idempotency-key").and_then(|value| value.to_str().ok()).filter(|key| !key.is_empty())
}
