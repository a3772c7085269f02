//! The log lines of requests: a debug line for each request, one line for each server error, and the access log.
//!
//! Every line has the request's ID. It never contains a payload, a query, a header or a raw path, because each of them
//! may hold a secret. A line names the operation's path template instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use actix_web::http::header::HeaderValue;
use actix_web::http::{Method, StatusCode};
use liststore_contract::row::Row;

use super::OperationId;
use super::metrics::label;
use super::problem::{ErrorCode, Problem, ToResponse};
use super::response::Response;
use crate::access::Principal;
use crate::telemetry::{ACCESS_TARGET, Log};

/// An outage under load would fail thousands of requests a second. Of each code, one line in this interval is a
/// warning, and further lines are debug lines. Metrics count them all.
const WARN_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct RequestLog {
    started: Instant,
    /// When each code last caused a warning, in milliseconds since the start; 0 for never.
    warned_at_ms: [AtomicU64; ErrorCode::COUNT],
    log: Arc<Log>,
    access_lines: PerSecond,
}

/// An answered request, as in the access log.
pub(crate) struct Accessed<'r> {
    pub request_id: &'r HeaderValue,
    /// `None` for a malformed request.
    pub method: Option<&'r Method>,
    /// `None` if no operation has its path. The log omits such a path, because it may contain anything.
    pub operation: Option<&'static Row>,
    pub principal: &'r Principal,
    pub response: &'r Response,
    pub took: Duration,
}

impl RequestLog {
    /// At most `access_lines_max` of each second's requests have a line.
    pub fn new(log: Arc<Log>, access_lines_max: u32) -> Self {
        Self {
            started: Instant::now(),
            warned_at_ms: [const { AtomicU64::new(0) }; ErrorCode::COUNT],
            log,
            access_lines: PerSecond::new(access_lines_max),
        }
    }

    /// Writes the line of a request, if the selection includes it.
    pub fn accessed<'r>(&self, response: &'r Response, request: impl FnOnce(&'r Response) -> Accessed<'r>) {
        let status = response.status.as_u16();
        if !self.log.access().takes(status) {
            return;
        }
        let second = self.started.elapsed().as_secs();
        let Some(left_out) = self.access_lines.take(second) else { return };
        if left_out > 0 {
            tracing::warn!(target: ACCESS_TARGET, left_out, "access log lines dropped: the rate limit was reached");
        }
        let Accessed { request_id, method, operation, principal, response, took } = request(response);
        let bytes = response.body.size().unwrap_or_default();
        tracing::info!(
            target: ACCESS_TARGET,
            request_id = request_id.to_str().unwrap_or_default(),
            method = method.map_or("none", method_name),
            path = operation.map_or("none", |operation| operation.path),
            status,
            took_us = took.as_micros() as u64,
            bytes,
            principal = %principal,
            "request"
        );
    }

    /// Logs a server error. The caller's mistakes are reported only to the caller.
    pub fn failed(&self, request_id: &HeaderValue, operation: &'static str, problem: &Problem) {
        use ErrorCode::{LocalOnly, PermissionDenied, RateLimited, Unauthenticated, UnknownHost};
        let is_refusal =
            matches!(problem.code, Unauthenticated | PermissionDenied | LocalOnly | UnknownHost | RateLimited);
        if is_refusal {
            self.log_refused_caller(request_id, operation, problem);
        }
        if !problem.status().is_server_error() {
            return;
        }
        let code = problem.code.name();
        let cause = problem.cause.as_deref().unwrap_or(&problem.detail);
        let request_id = text(request_id);
        if problem.code == ErrorCode::Internal {
            tracing::error!(request_id, operation, code, cause, "a request failed");
        } else if self.is_due(problem.code) {
            tracing::warn!(request_id, operation, code, cause, "requests fail");
        } else {
            tracing::debug!(request_id, operation, code, cause, "a request failed");
        }
    }

    /// Logs a refused caller, if identified. Any client can cause this, so each code has one line per interval.
    fn log_refused_caller(&self, request_id: &HeaderValue, operation: &'static str, problem: &Problem) {
        let (code, who) = (problem.code.name(), problem.cause.as_deref().unwrap_or_default());
        let (request_id, reason) = (text(request_id), &*problem.detail);
        if self.is_due(problem.code) {
            tracing::warn!(request_id, operation, code, who, reason, "requests were refused");
        } else {
            tracing::debug!(request_id, operation, code, who, reason, "request refused");
        }
    }

    pub fn answered(
        &self,
        request_id: &HeaderValue,
        method: &Method,
        operation: Option<OperationId>,
        status: StatusCode,
        took: Duration,
    ) {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let (operation, path) = (label(operation), operation.map_or("none", |id| id.row().path));
        let method = method_name(method);
        let (request_id, status, took_us) = (text(request_id), status.as_u16(), took.as_micros() as u64);
        tracing::debug!(request_id, operation, method, path, status, took_us, "answered");
    }

    /// Logs a malformed request, only at debug level, because any client can send many.
    pub fn refused(&self, request_id: &HeaderValue, problem: &Problem, took: Duration) {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let (code, reason, took_us) = (problem.code.name(), &*problem.detail, took.as_micros() as u64);
        let request_id = text(request_id);
        tracing::debug!(request_id, code, reason, took_us, "malformed request refused");
    }

    fn is_due(&self, code: ErrorCode) -> bool {
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        let warned_at_ms = &self.warned_at_ms[code as usize];
        let last = warned_at_ms.load(Ordering::Relaxed);
        let due = last == 0 || now_ms - last.min(now_ms) >= WARN_INTERVAL.as_millis() as u64;
        due && warned_at_ms.compare_exchange(last, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// A field of each line instead of a span, so that fields are flat in JSON.
/// The name of a standard method (RFC 9110, RFC 5789). Any other text is the caller's, and may hold a secret.
fn method_name(method: &Method) -> &str {
    let standard = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::CONNECT,
        Method::OPTIONS,
        Method::TRACE,
        Method::PATCH,
    ];
    if standard.contains(method) { method.as_str() } else { "other" }
}

fn text(request_id: &HeaderValue) -> &str {
    request_id.to_str().unwrap_or_default()
}

/// Permits an event a bounded number of times in a second.
#[derive(Debug)]
struct PerSecond {
    max: u32,
    /// The second, and in the lower bits the number of attempts in it.
    wanted: AtomicU64,
}

impl PerSecond {
    fn new(max: u32) -> Self {
        Self { max, wanted: AtomicU64::new(0) }
    }

    /// Whether the event is permitted now. The first one of a second returns how many were refused in the last second
    /// with attempts.
    fn take(&self, second: u64) -> Option<u64> {
        let next = |packed: u64| {
            let (last, wanted) = (packed >> 32, packed & u64::from(u32::MAX));
            if last >= second { (last << 32) | (wanted + 1).min(u64::from(u32::MAX)) } else { (second << 32) | 1 }
        };
        let before = self.wanted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |packed| Some(next(packed)));
        let before = before.unwrap_or_else(|unchanged| unchanged);
        let (last, wanted) = (before >> 32, before & u64::from(u32::MAX));
        if last < second {
            return Some(wanted.saturating_sub(self.max.into()));
        }
        (wanted < self.max.into()).then_some(0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use liststore_contract::operations::{add_items, get_items};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn request_log() -> RequestLog {
        RequestLog::new(Arc::new(Log::unset()), 3)
    }

    /// The log lines of a request with this failure.
    fn logged(level: tracing::Level, problem: &Problem) -> Vec<String> {
        let (lines, log) = (Lines::default(), request_log());
        let writer = lines.clone();
        let subscriber =
            tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_writer(move || writer.clone());
        let id = HeaderValue::from_static("request-17");
        tracing::subscriber::with_default(subscriber.finish(), || {
            log.failed(&id, "add_items", problem);
            log.failed(&id, "add_items", problem);
            let operation = Some(OperationId::new(1, &add_items::ROW));
            log.answered(&id, &Method::POST, operation, problem.status(), Duration::from_micros(5));
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn every_line_has_the_requests_id() {
        let outage = Problem::new(ErrorCode::StoreUnavailable, "away").with_cause("no route");
        let lines = logged(tracing::Level::DEBUG, &outage);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines.iter().all(|line| line.contains("request_id=\"request-17\"")), "{lines:?}");
        assert!(lines[2].contains("operation=\"add_items\"") && lines[2].contains("status=503"), "{lines:?}");
        assert!(lines[2].contains("/{entity_id}/items"), "{lines:?}");
    }

    #[test]
    fn server_failures_are_logged_without_debug_lines() {
        let outage = Problem::new(ErrorCode::StoreUnavailable, "away").with_cause("no route");
        let lines = logged(tracing::Level::INFO, &outage);
        // One outage has one line, with the cause and the ID.
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("request-17") && lines[0].contains("no route"), "{lines:?}");
        // An error that must not happen is always logged.
        assert_eq!(logged(tracing::Level::INFO, &Problem::internal("damaged")).len(), 2);
        // A caller's mistake is never logged.
        assert_eq!(logged(tracing::Level::INFO, &Problem::argument("limit", "too large")).len(), 0);
    }

    #[test]
    fn lines_omitted_in_a_second_are_counted_in_the_next() {
        let lines = PerSecond::new(2);
        let wanted = |second: u64, times: usize| (0..times).map(|_| lines.take(second)).collect::<Vec<_>>();
        assert_eq!(wanted(0, 5), [Some(0), Some(0), None, None, None]);
        assert_eq!(wanted(1, 2), [Some(3), Some(0)]);
        assert_eq!(wanted(9, 3), [Some(0), Some(0), None]);
        // A late thread counts in the current second.
        assert_eq!(wanted(8, 1), [None]);
        assert_eq!(wanted(10, 1), [Some(2)]);
    }

    #[test]
    fn a_method_that_is_not_standard_is_not_logged() {
        assert_eq!([&Method::GET, &Method::PATCH].map(method_name), ["GET", "PATCH"]);
        let secret = Method::from_bytes(b"ls_0123456789abcdef").unwrap();
        assert_eq!(method_name(&secret), "other");
    }

    #[test]
    fn the_access_log_has_the_selected_requests_within_its_bound() {
        use crate::domain::AccessLog;
        let (lines, log) = (Lines::default(), request_log());
        let writer = lines.clone();
        let written = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let id = HeaderValue::from_static("request-17");
        let request = |status: u16| {
            let response = Response::new(StatusCode::from_u16(status).unwrap()).body("sixteen octets..");
            log.accessed(&response, |response| Accessed {
                request_id: &id,
                method: Some(&Method::GET),
                operation: Some(&get_items::ROW),
                principal: &Principal::Anonymous,
                response,
                took: Duration::from_micros(5),
            });
        };
        tracing::subscriber::with_default(written, || {
            request(200);
            request(500);
            log.log.change(None, Some(AccessLog::Errors)).unwrap();
            request(200);
            request(404);
            log.log.change(None, Some(AccessLog::All)).unwrap();
            (0..5).for_each(|_| request(200));
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let reported: Vec<_> = text.lines().collect();
        assert_eq!(reported.len(), 3, "{reported:?}");
        assert!(reported[0].contains("status=404") && reported[1].contains("status=200"), "{reported:?}");
        for part in
            ["request-17", "GET", "/v1/lists/{entity_type}/{feature}/{entity_id}/items", "bytes=16", "took_us=5"]
        {
            assert!(reported[0].contains(part), "{part}: {reported:?}");
        }
    }

    #[test]
    fn an_outage_is_logged_once_a_second() {
        let log = request_log();
        assert!(log.is_due(ErrorCode::StoreUnavailable));
        assert!(!log.is_due(ErrorCode::StoreUnavailable));
        assert!(log.is_due(ErrorCode::MetadataUnavailable));
    }
}
