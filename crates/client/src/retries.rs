//! When a request is sent again, and how long to wait before that.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use super::error::ClientError;

const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// Also the longest `Retry-After` of a server that is followed.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A bound on the attempts of one request.
#[derive(Debug, Clone, Copy)]
pub struct Retries {
    retries_max: u32,
    /// Whether a server that is away is waited for: requests that it never got, and repeatable
    /// ones that it did not answer.
    outlast_outage: bool,
}

impl Retries {
    /// One attempt: the caller itself tries again.
    pub const NONE: Self = Self { retries_max: 0, outlast_outage: false };
    /// For a person who waits: at most four attempts, and only one if the server is unreachable.
    pub const PATIENT: Self = Self { retries_max: 3, outlast_outage: false };
    /// For bulk work: it outlasts a restart of the server of about half a minute.
    pub const PERSISTENT: Self = Self { retries_max: 11, outlast_outage: true };

    /// The pause before the next attempt, after `attempt` retries; none if there must be no other.
    pub fn pause(&self, attempt: u32, error: &ClientError, repeatable: bool) -> Option<Duration> {
        if attempt >= self.retries_max {
            return None;
        }
        let asked_for = match error {
            ClientError::Problem(problem)
                if problem.details.retryable && (repeatable || !problem.details.outcome_unknown) =>
            {
                problem.retry_after
            }
            ClientError::Unreachable { .. } if self.outlast_outage => None,
            ClientError::NoAnswer { .. } if self.outlast_outage && repeatable => None,
            _ => return None,
        };
        let backed_off = PAUSE_FIRST.saturating_mul(1 << attempt.min(10));
        Some(jittered(asked_for.unwrap_or(backed_off).min(PAUSE_MAX)))
    }
}

/// Between the pause and one and a half times the pause, so that many callers do not return at once.
fn jittered(pause: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish() % 1_000;
    pause + pause.mul_f64(random as f64 / 2_000.0)
}

#[cfg(test)]
mod tests {
    use super::super::error::Problem;
    use super::*;
    use liststore_contract::wire::ProblemBody;

    fn problem(retryable: bool, outcome_unknown: bool, retry_after: Option<u64>) -> ClientError {
        ClientError::Problem(Box::new(Problem {
            details: ProblemBody {
                kind: "/docs/errors/overloaded".into(),
                title: "Too many operations in flight".into(),
                status: 503,
                code: "overloaded".into(),
                detail: "busy".into(),
                retryable,
                field: None,
                outcome_unknown,
            },
            retry_after: retry_after.map(Duration::from_secs),
            next_step: None,
            role: None,
        }))
    }

    fn unreachable() -> ClientError {
        ClientError::Unreachable { url: "http://x".into(), reason: "refused".into(), advice: String::new() }
    }

    fn no_answer() -> ClientError {
        ClientError::NoAnswer { url: "http://x".into(), reason: "reset".into(), advice: "" }
    }

    #[test]
    fn only_repeatable_requests_are_repeated() {
        let patient = Retries::PATIENT;
        assert!(patient.pause(0, &problem(true, false, None), false).is_some());
        assert!(patient.pause(0, &problem(true, true, None), true).is_some());
        assert!(patient.pause(0, &problem(true, true, None), false).is_none());
        assert!(patient.pause(0, &problem(false, false, None), true).is_none());
        assert!(patient.pause(0, &unreachable(), true).is_none());
        let persistent = Retries::PERSISTENT;
        assert!(persistent.pause(0, &unreachable(), false).is_some());
        assert!(persistent.pause(0, &no_answer(), true).is_some());
        assert!(persistent.pause(0, &no_answer(), false).is_none());
    }

    #[test]
    fn attempts_and_pauses_are_bounded() {
        for retries in [Retries::PATIENT, Retries::PERSISTENT] {
            let pauses: Vec<Duration> =
                (0..100).map_while(|attempt| retries.pause(attempt, &problem(true, false, None), true)).collect();
            assert_eq!(pauses.len(), retries.retries_max as usize);
            assert!(pauses.iter().all(|pause| *pause <= PAUSE_MAX.mul_f64(1.5)));
        }
    }

    #[test]
    fn retry_after_is_followed_up_to_a_maximum() {
        let pause = |secs| Retries::PATIENT.pause(0, &problem(true, false, Some(secs)), true).unwrap();
        assert!((Duration::from_secs(2)..=Duration::from_secs(3)).contains(&pause(2)));
        assert!(pause(3_600) <= PAUSE_MAX.mul_f64(1.5));
    }
}
