//! Serves the console's files. It hides nothing and makes no decision: the pages are public, and they load their data
//! from the API.

use actix_web::http::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderName,
    HeaderValue, LOCATION, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use actix_web::http::{Method, StatusCode};

use super::call::HandlerResult;
use super::headers::has_already;
use super::negotiation::{Coding, preferred_coding};
use super::problem::Problem;
use super::response::Response;
use crate::console::{self, CONSOLE, FoundFile};

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const METHODS: &str = "GET, HEAD, OPTIONS";

/// Allows only the server's own files and API, and the identity providers: no inline script or style, no evaluated
/// text, no other host.
pub(crate) fn content_policy(sign_in_origins: &[String]) -> String {
    let connect = [&["'self'".to_owned()], sign_in_origins].concat().join(" ");
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src {connect}; \
         base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
    )
}

/// The answer, if the path belongs to the console.
pub(crate) fn answer(method: &Method, path: &str, headers: &HeaderMap, content_policy: &str) -> Option<HandlerResult> {
    if path == "/" {
        return (is_read(method) && is_browser(headers)).then(to_the_console);
    }
    let found = console::find(path)?;
    Some(if is_read(method) {
        file(&found, headers, content_policy)
    } else if method == Method::OPTIONS {
        Ok(Response::new(StatusCode::NO_CONTENT).with(ALLOW, HeaderValue::from_static(METHODS)))
    } else {
        Err(Problem::method_not_allowed(METHODS.to_owned()))
    })
}

fn is_read(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

/// Browsers accept HTML by name. Programs accept other types, or any type.
fn is_browser(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(ACCEPT).filter_map(|value| value.to_str().ok());
    accepted.any(|list| list.contains("text/html"))
}

fn to_the_console() -> HandlerResult {
    let response = Response::new(StatusCode::SEE_OTHER).with(LOCATION, HeaderValue::from_static(CONSOLE));
    Ok(response.with(VARY, HeaderValue::from_static("Accept")))
}

fn file(found: &FoundFile, headers: &HeaderMap, content_policy: &str) -> HandlerResult {
    let FoundFile { file, is_immutable } = *found;
    let is_packed = preferred_coding(headers, &[Coding::Gzip]).is_some();
    let etag = if is_packed { &file.etag_packed } else { &file.etag };
    if has_already(headers, etag.as_bytes())? {
        return about(StatusCode::NOT_MODIFIED, etag, is_immutable, content_policy);
    }
    let response = about(StatusCode::OK, etag, is_immutable, content_policy)?;
    let response = response.with(CONTENT_TYPE, HeaderValue::from_static(file.content_type));
    Ok(if is_packed {
        response.with(CONTENT_ENCODING, HeaderValue::from_static("gzip")).body(file.packed.clone())
    } else {
        response.body(file.plain.clone())
    })
}

/// The headers of a file, with or without its content.
fn about(status: StatusCode, etag: &str, is_immutable: bool, policy: &str) -> HandlerResult {
    let caching = if is_immutable { "public, max-age=31536000, immutable" } else { "no-cache" };
    let response = [
        (CACHE_CONTROL, caching),
        (VARY, "Accept-Encoding"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (OPENER_POLICY, "same-origin"),
    ]
    .into_iter()
    .fold(Response::new(status), |response, (name, value)| response.with(name, HeaderValue::from_static(value)));
    response.with_text(ETAG, etag.to_owned())?.with_text(CONTENT_SECURITY_POLICY, policy.to_owned())
}
