//! Times relative to now: `now`, `-7d`, `-1h30m`, `+1h`, `now-7d`.

use crate::domain::{Timestamp, Ttl};

/// Reads a text that is relative to this moment; none if it is not relative.
pub fn read(text: &str, now: Timestamp) -> Option<Result<Timestamp, String>> {
    let offset = match text.strip_prefix("now") {
        Some("") => return Some(Ok(now)),
        Some(offset) => offset,
        None => text,
    };
    let (is_ago, duration) = match offset.split_at_checked(1)? {
        ("-", duration) => (true, duration),
        ("+", duration) => (false, duration),
        // `7d` is an age or a time from now.
        _ => {
            let is_duration = Ttl::parse(text).is_ok();
            return is_duration.then(|| Err(format!("write -{text} for {text} ago, or +{text} for {text} from now")));
        }
    };
    let duration = match Ttl::parse(duration) {
        Ok(duration) => u128::from(duration.as_secs()) * 1_000_000_000,
        Err(_) => {
            let sign = &offset[..1];
            return Some(Err(format!(
                "{text}: write a duration with units after the sign, such as {sign}7d, {sign}1h or {sign}1w2d (units: \
                 y, w, d, h, m, s)"
            )));
        }
    };
    let now = u128::from(now.as_nanos());
    let nanos = if is_ago { now.saturating_sub(duration) } else { now + duration };
    Some(Ok(Timestamp::saturating_from_nanos(nanos)))
}
