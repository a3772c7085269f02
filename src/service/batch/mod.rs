//! Operations on many lists in one call: each list by the rules of the operation on one, all by one deadline.
//!
//! Whether the caller may at all is decided before anything else; whether they may for each feature, and
//! whether there is such a feature, is told for each request by itself. A request for what cannot exist keeps its
//! place. Everything is done in parts, between which others on the thread have their turn.

mod add;
mod get;
mod versions;

pub(super) use get::Room;

use tokio::time::Instant;

use super::ServiceError;

/// Requests that are looked at before others on the thread have their turn: some tens of microseconds.
const TURN_REQUESTS: usize = 32;
/// Bytes of pages, or of values, after which the turn is over before.
const TURN_BYTES: usize = 128 << 10;

/// What is done before others on the thread have their turn.
#[derive(Default)]
struct Turn {
    requests: usize,
    bytes: usize,
}

impl Turn {
    /// Counts a request, and lets others have their turn if it is time.
    async fn count(&mut self, bytes: usize) {
        self.requests += 1;
        self.bytes += bytes;
        if self.requests >= TURN_REQUESTS || self.bytes >= TURN_BYTES {
            *self = Self::default();
            tokio::task::yield_now().await;
        }
    }
}

/// The places of requests that are refused already, with why.
pub(super) struct SetAside(Vec<(usize, ServiceError)>);

impl SetAside {
    /// Takes them out of the requests of a call.
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

    /// The answers of the call, each in the place of its request.
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

/// Refuses what is begun no more, since the call's deadline has passed.
pub(super) fn in_time(deadline: Instant) -> Result<(), ServiceError> {
    if Instant::now() < deadline { Ok(()) } else { Err(ServiceError::DeadlineExceeded { outcome_unknown: false }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_stand_in_the_places_of_their_requests() {
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
