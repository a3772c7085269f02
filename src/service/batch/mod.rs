//! Operations on many lists in one call, with one deadline. Each list follows the rules of the operation on one list.
//!
//! First the caller's permission for the call is decided. Each request has a separate result: the permission for its
//! feature, and whether the feature exists. A request for a list that cannot exist keeps its position. The work is done
//! in parts, between which the thread serves other calls.

mod add;
mod aggregates;
mod get;
mod versions;

pub(super) use get::AnswerRoom;

use tokio::time::Instant;

use super::ServiceError;

/// Requests that are handled before the thread serves other calls: some tens of microseconds.
const TURN_REQUESTS: usize = 32;
/// Bytes of pages, or of values, after which a part ends earlier.
const TURN_BYTES: usize = 128 << 10;

/// The work of a part.
#[derive(Default)]
struct BatchPace {
    requests: usize,
    bytes: usize,
}

impl BatchPace {
    /// Counts a request, and yields at the end of a part.
    async fn count(&mut self, bytes: usize) {
        self.requests += 1;
        self.bytes += bytes;
        if self.requests >= TURN_REQUESTS || self.bytes >= TURN_BYTES {
            *self = Self::default();
            tokio::task::yield_now().await;
        }
    }
}

/// The positions of refused requests, with the reasons.
pub(super) struct SetAside(Vec<(usize, ServiceError)>);

impl SetAside {
    /// Separates them from the requests of a call.
    pub fn sort_out<T>(requests: Vec<Result<T, ServiceError>>) -> (Vec<T>, Self) {
        let (mut taken, mut refused) = (Vec::with_capacity(requests.len()), Vec::new());
        for (place, request) in requests.into_iter().enumerate() {
            match request {
                Ok(request) => taken.push(request),
                Err(error) => refused.push((place, error)),
            }
        }
        (taken, Self(refused))
    }

    /// The answers of the call, each at the position of its request.
    pub fn put_back<A>(self, answers: Vec<Result<A, ServiceError>>) -> Vec<Result<A, ServiceError>> {
        if self.0.is_empty() {
            return answers;
        }
        let mut all = Vec::with_capacity(answers.len() + self.0.len());
        let mut answers = answers.into_iter();
        for (place, error) in self.0 {
            all.extend(answers.by_ref().take(place - all.len()));
            all.push(Err(error));
        }
        all.extend(answers);
        all
    }
}

/// Refuses work that would begin after the call's deadline.
pub(super) fn in_time(deadline: Instant) -> Result<(), ServiceError> {
    if Instant::now() < deadline { Ok(()) } else { Err(ServiceError::DeadlineExceeded { outcome_unknown: false }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_the_order_of_their_requests() {
        for refused in [&[][..], &[0], &[3], &[0, 1], &[2, 3], &[0, 1, 2, 3], &[1, 3]] {
            let late = || ServiceError::DeadlineExceeded { outcome_unknown: false };
            let requests = (0..4).map(|place| if refused.contains(&place) { Err(late()) } else { Ok(place) });
            let (taken, sorted_out) = SetAside::sort_out(requests.collect());
            let answers = sorted_out.put_back(taken.into_iter().map(Ok).collect());
            let expected: Vec<_> = (0..4).map(|place| (!refused.contains(&place)).then_some(place)).collect();
            assert_eq!(answers.into_iter().map(Result::ok).collect::<Vec<_>>(), expected, "{refused:?}");
        }
    }
}
