//! Times relative to now: `now`, `-7d`, `-1h30m`, `+1h`, `now-7d`, and in words, as the console shows them:
//! `3 hours ago`, `in 12 days`.

use crate::domain::{Timestamp, Ttl};

/// Units in words, with their lengths in seconds. The console shows months of the same length.
const UNITS: [(&str, u64); 7] = [
    ("second", 1),
    ("minute", 60),
    ("hour", 3_600),
    ("day", 86_400),
    ("week", 604_800),
    ("month", 2_629_800),
    ("year", 31_536_000),
];

/// Reads a text that is relative to this moment; none if it is not relative.
pub fn read(text: &str, now: Timestamp) -> Option<Result<Timestamp, String>> {
    if let Some(read) = in_words(text, now) {
        return Some(read);
    }
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
                "{text}: write a duration from 1 s to 20 years with units, such as {sign}7d, {sign}1h or {sign}1w2d \
                 (units: y, w, d, h, m, s)"
            )));
        }
    };
    Some(Ok(moved(now, is_ago, duration)))
}

fn moved(now: Timestamp, is_ago: bool, nanos: u128) -> Timestamp {
    let now = u128::from(now.as_nanos());
    Timestamp::saturating_from_nanos(if is_ago { now.saturating_sub(nanos) } else { now + nanos })
}

/// Reads `3 hours ago`, `3h ago`, `in 12 days`, `just now`; none for any other text.
pub fn in_words(text: &str, now: Timestamp) -> Option<Result<Timestamp, String>> {
    let lower = text.to_ascii_lowercase();
    let words: Vec<_> = lower.split_ascii_whitespace().collect();
    let (is_ago, duration) = match &words[..] {
        ["just", "now"] | ["in", "a", "moment"] => return Some(Ok(now)),
        [duration @ .., "ago"] => (true, duration),
        ["in", duration @ ..] => (false, duration),
        _ => return None,
    };
    let secs = match duration {
        [duration] => Ttl::parse(duration).ok()?.as_secs(),
        [count, unit] => {
            let is_digits = count.bytes().all(|byte| byte.is_ascii_digit());
            let count =
                if matches!(*count, "a" | "an") { 1 } else { count.parse::<u64>().ok().filter(|_| is_digits)? };
            let unit = unit.strip_suffix('s').unwrap_or(unit);
            let (_, length) = UNITS.iter().find(|(name, _)| *name == unit)?;
            count.checked_mul(*length)?
        }
        _ => return None,
    };
    if secs > Ttl::MAX.as_secs() {
        return Some(Err(format!("{text} is more than 20 years from now: write a date, such as 2024-08-29")));
    }
    Some(Ok(moved(now, is_ago, u128::from(secs) * 1_000_000_000)))
}
