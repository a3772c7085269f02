//! Detects changes that a page of another site sends.
//!
//! A browser sends the requests of a page from inside the user's network. It names the page's site (`Origin`, the Fetch
//! standard, section 3.2; `Sec-Fetch-Site`, Fetch Metadata). Programs send neither header, and need not.

use actix_web::http::Method;
use actix_web::http::header::{HOST, HeaderMap, ORIGIN};

use super::problem::{ErrorCode, Problem};

const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Refuses changes from a page of another site. `allowed` are origins as browsers write them, such as
/// `https://lists.example.org`.
pub(crate) fn check(method: &Method, headers: &HeaderMap, allowed: &[String]) -> Result<(), Problem> {
    if headers.is_empty() || matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    let mut origins = headers.get_all(ORIGIN).peekable();
    let fits = if origins.peek().is_some() {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        origins.all(|origin| origin.to_str().is_ok_and(|origin| is_allowed(origin, allowed) || is_of(origin, host)))
    } else {
        // Browsers that omit one header send the other. `none` is a person's own action.
        headers.get_all(SEC_FETCH_SITE).all(|site| matches!(site.as_bytes(), b"same-origin" | b"none"))
    };
    if fits {
        return Ok(());
    }
    let detail = "cross-origin request refused: add the origin to http.allowed_origins to allow it";
    Err(Problem::new(ErrorCode::CrossSite, detail).at("Origin"))
}

fn is_allowed(origin: &str, allowed: &[String]) -> bool {
    allowed.iter().any(|known| known.eq_ignore_ascii_case(origin))
}

/// Whether a page of this origin came from the requested host. Its scheme is unknown here, because a proxy may have
/// terminated TLS.
fn is_of(origin: &str, host: &str) -> bool {
    let (authority, port) = match (origin.strip_prefix("http://"), origin.strip_prefix("https://")) {
        (Some(authority), _) => (authority, ":80"),
        (_, Some(authority)) => (authority, ":443"),
        _ => return false,
    };
    let bare = |text: &'_ str| text.strip_suffix(port).unwrap_or(text).to_ascii_lowercase();
    !authority.is_empty() && bare(authority) == bare(host)
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{HeaderName, HeaderValue};

    use super::*;

    fn refused(method: Method, lines: &[(&'static str, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let allowed = ["https://console.example.org".to_owned()];
        check(&method, &headers, &allowed).is_err_and(|problem| problem.code == ErrorCode::CrossSite)
    }

    #[test]
    fn pages_of_the_server_itself_and_of_named_origins_may_write() {
        for lines in [
            &[][..],
            &[("x-request-id", "r")],
            &[("host", "lists:8080"), ("origin", "http://lists:8080")],
            &[("host", "Lists.example.org"), ("origin", "https://lists.example.ORG")],
            &[("host", "lists:443"), ("origin", "https://lists")],
            &[("host", "lists"), ("origin", "http://lists:80")],
            &[("host", "[::1]:8080"), ("origin", "http://[::1]:8080")],
            &[("host", "lists"), ("origin", "https://console.example.org"), ("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-origin")],
            &[("sec-fetch-site", "none")],
        ] {
            assert!(!refused(Method::POST, lines), "{lines:?}");
        }
    }

    #[test]
    fn pages_of_other_sites_may_not() {
        for lines in [
            &[("host", "lists:8080"), ("origin", "http://evil:8080")][..],
            &[("host", "lists:8080"), ("origin", "http://lists:8081")],
            &[("host", "lists"), ("origin", "http://lists.evil")],
            &[("host", "lists"), ("origin", "http://lists:443")],
            &[("host", "lists"), ("origin", "null")],
            &[("host", "lists"), ("origin", "")],
            &[("origin", "http://")],
            &[("host", "lists"), ("origin", "ftp://lists")],
            &[("host", "lists"), ("origin", "http://lists"), ("origin", "http://evil")],
            &[("host", "lists"), ("origin", "https://console.example.org.evil")],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "surprise")],
        ] {
            for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
                assert!(refused(method, lines), "{lines:?}");
            }
            assert!(!refused(Method::GET, lines), "{lines:?}");
        }
    }
}
