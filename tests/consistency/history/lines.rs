//! Calls as lines of text, for people.

use std::fmt;

use super::{Call, Moment, Outcome, Request};

/// A call as one line, for people: time, client, request, and answer.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |moment: Moment| moment as f64 / 1e6;
        write!(f, "{:>12.3}–{:<12.3} ms  client {:<2} ", millis(self.from), millis(self.to), self.client)?;
        match &self.request {
            Request::Get { list, min, max, order, limit, after } => {
                write!(f, "get {list} {order:?} first, min={min:?} max={max:?} limit={limit:?}")?;
                match after {
                    Some(after) => write!(f, " after={}#{}", after.timestamp, after.digest)?,
                    None => write!(f, " from its end")?,
                }
            }
            Request::Count { list, min, max, limit } => {
                write!(f, "count {list} min={min:?} max={max:?} limit={limit:?}")?;
            }
            Request::Contains { list, min, max, values } => {
                write!(f, "search in {list} min={min:?} max={max:?} for {values:?}")?;
            }
            Request::Aggregate { list, windows, group_by, .. } => {
                write!(f, "aggregate {list} in {windows:?}")?;
                group_by.iter().try_for_each(|by| write!(f, " by {by:?}"))?;
            }
            Request::Lookup { list, values } => write!(f, "look up {values:?} in {list}")?,
            Request::Add { list, items } => {
                write!(f, "add {list}")?;
                items.iter().try_for_each(|item| write!(f, " {item}"))?;
            }
            Request::RemoveValue { list, value } => write!(f, "remove {list} {value}")?,
            Request::RemoveItems { list, items } => {
                write!(f, "remove {list}")?;
                items.iter().try_for_each(|item| write!(f, " {item}"))?;
            }
            Request::RemoveBetween { list, min, max } => write!(f, "remove {list} min={min:?} max={max:?}")?,
            Request::RemoveAll { list } => write!(f, "remove all {list}")?,
            Request::CreateFeature { feature, ttl_secs } => write!(f, "create feature {feature} ttl={ttl_secs}s")?,
            Request::CreateSpecial { feature, special, .. } => write!(f, "create feature {feature}: {special:?}")?,
            Request::DeleteFeature { feature } => write!(f, "delete feature {feature}")?,
            Request::CreateVersion { version, ttl_secs } => write!(f, "create version {version} ttl={ttl_secs}s")?,
            Request::DeleteVersion { version } => write!(f, "delete version {version}")?,
            Request::ChangeTtl { version, ttl_secs } => write!(f, "change {version} to ttl={ttl_secs}s")?,
            Request::ReadTtl { version } => write!(f, "read the ttl of {version}")?,
            Request::Bag(request) => write!(f, "{request}")?,
        }
        match &self.outcome {
            Outcome::Page { items, more } => {
                write!(f, " → {} items{}", items.len(), if *more { ", more" } else { "" })
            }
            Outcome::Added { added, already_expired } => {
                write!(f, " → added {added}, already expired {already_expired}")
            }
            Outcome::Removed(count) => write!(f, " → removed {count}"),
            Outcome::Counted { count, exact } => write!(f, " → {count}{}", if *exact { "" } else { " and more" }),
            Outcome::Aggregated(reported) => write!(f, " → {reported}"),
            Outcome::Contained(newest) => write!(f, " → {newest:?}"),
            Outcome::Done => write!(f, " → done"),
            Outcome::Ttl(secs) => write!(f, " → {secs}s"),
            Outcome::Bag(outcome) => write!(f, " → {outcome}"),
            Outcome::FeatureNotFound => write!(f, " → no such feature"),
            Outcome::VersionNotFound => write!(f, " → no such version"),
            Outcome::Exists => write!(f, " → exists"),
            Outcome::NotDone { why } => write!(f, " → not done ({why})"),
            Outcome::Unknown { why } => write!(f, " → unknown ({why})"),
            Outcome::Forbidden { answer } => write!(f, " → {answer}"),
        }
    }
}
