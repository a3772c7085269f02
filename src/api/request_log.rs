//! What the log says of requests: one line each at debug level, and failures of ours once, where
//! they are answered. Every line stands in a span with the request's id. Never a payload.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use actix_web::http::header::HeaderValue;
use actix_web::http::{Method, StatusCode};

use super::problem::{ErrorCode, Problem};

/// Under load an outage would fail thousands of requests a second: of each code, one line in this
/// time is a warning, and the others are debug lines. Metrics count them all.
const WARN_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct RequestLog {
    started: Instant,
    /// When each code was last warned of, in milliseconds since the start; 0 for never.
    warned_at_ms: [AtomicU64; ErrorCode::COUNT],
}

impl Default for RequestLog {
    fn default() -> Self {
        Self { started: Instant::now(), warned_at_ms: [const { AtomicU64::new(0) }; ErrorCode::COUNT] }
    }
}

impl RequestLog {
    /// Logs a failure of ours; what the caller did wrong is the caller's to know.
    pub fn failed(&self, request_id: &HeaderValue, operation: &'static str, problem: &Problem) {
        use ErrorCode::{LocalOnly, PermissionDenied, RateLimited, Unauthenticated, UnknownHost};
        let is_refusal =
            matches!(problem.code, Unauthenticated | PermissionDenied | LocalOnly | UnknownHost | RateLimited);
        if is_refusal {
            self.turned_away(request_id, operation, problem);
        }
        if !problem.status().is_server_error() {
            return;
        }
        let code = problem.code.name();
        let cause = problem.cause.as_deref().unwrap_or(&problem.detail);
        in_span(request_id, || {
            if problem.code == ErrorCode::Internal {
                tracing::error!(operation, code, cause, "a request failed");
            } else if self.is_due(problem.code) {
                tracing::warn!(operation, code, cause, "requests fail");
            } else {
                tracing::debug!(operation, code, cause, "a request failed");
            }
        });
    }

    /// Logs who was turned away, as far as that is known. Anybody can cause it, so that of each code there is
    /// one line in a while.
    fn turned_away(&self, request_id: &HeaderValue, operation: &'static str, problem: &Problem) {
        let (code, who) = (problem.code.name(), problem.cause.as_deref().unwrap_or_default());
        in_span(request_id, || {
            if self.is_due(problem.code) {
                tracing::warn!(operation, code, who, reason = &*problem.detail, "requests are turned away");
            } else {
                tracing::debug!(operation, code, who, reason = &*problem.detail, "a request was turned away");
            }
        });
    }

    pub fn answered(
        &self,
        request_id: &HeaderValue,
        method: &Method,
        path: &str,
        operation: &'static str,
        status: StatusCode,
        took: Duration,
    ) {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let method = method.as_str();
        let (status, took_us) = (status.as_u16(), took.as_micros() as u64);
        in_span(request_id, || tracing::debug!(operation, method, path, status, took_us, "answered"));
    }

    /// Logs what was no request: whoever sends that is not to fill the log with it.
    pub fn refused(&self, request_id: &HeaderValue, problem: &Problem, took: Duration) {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let (code, reason, took_us) = (problem.code.name(), &*problem.detail, took.as_micros() as u64);
        in_span(request_id, || tracing::debug!(code, reason, took_us, "refused what is no request"));
    }

    fn is_due(&self, code: ErrorCode) -> bool {
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        let warned_at_ms = &self.warned_at_ms[code as usize];
        let last = warned_at_ms.load(Ordering::Relaxed);
        let due = last == 0 || now_ms - last.min(now_ms) >= WARN_INTERVAL.as_millis() as u64;
        due && warned_at_ms.compare_exchange(last, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// The span is made only when there is something to log: it would cost each get a twentieth of its
/// time. Its level is that of errors, so that it is there for every line that is.
fn in_span(request_id: &HeaderValue, log: impl FnOnce()) {
    let request_id = request_id.to_str().unwrap_or_default();
    tracing::error_span!("request", request_id).in_scope(log);
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

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

    /// What is logged of a request that failed so.
    fn logged(level: tracing::Level, problem: &Problem) -> Vec<String> {
        let (lines, log) = (Lines::default(), RequestLog::default());
        let writer = lines.clone();
        let subscriber =
            tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_writer(move || writer.clone());
        let path = "/v1/lists/user/seen/u/items";
        let id = HeaderValue::from_static("request-17");
        tracing::subscriber::with_default(subscriber.finish(), || {
            log.failed(&id, "add_items", problem);
            log.failed(&id, "add_items", problem);
            log.answered(&id, &Method::POST, path, "add_items", problem.status(), Duration::from_micros(5));
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn every_line_has_the_requests_id() {
        let outage = Problem::new(ErrorCode::StoreUnavailable, "away").because("no route");
        let lines = logged(tracing::Level::DEBUG, &outage);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines.iter().all(|line| line.contains("request_id=\"request-17\"")), "{lines:?}");
        assert!(lines[2].contains("operation=\"add_items\"") && lines[2].contains("status=503"), "{lines:?}");
    }

    #[test]
    fn failures_of_ours_are_logged_where_debug_lines_are_not() {
        let outage = Problem::new(ErrorCode::StoreUnavailable, "away").because("no route");
        let lines = logged(tracing::Level::INFO, &outage);
        // Of one outage once, with the cause and the id.
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("request-17") && lines[0].contains("no route"), "{lines:?}");
        // Of what must not happen, always.
        assert_eq!(logged(tracing::Level::INFO, &Problem::internal("damaged")).len(), 2);
        // Of what the caller did wrong, never.
        assert_eq!(logged(tracing::Level::INFO, &Problem::argument("limit", "too large")).len(), 0);
    }

    #[test]
    fn an_outage_is_warned_of_once_a_second() {
        let log = RequestLog::default();
        assert!(log.is_due(ErrorCode::StoreUnavailable));
        assert!(!log.is_due(ErrorCode::StoreUnavailable));
        assert!(log.is_due(ErrorCode::MetadataUnavailable));
    }
}
