//! How far the timestamp of an added item may be ahead of the server's clock.

use std::fmt;

use super::{Invalid, Timestamp, Ttl};

/// A bound on timestamps in the future: a duration as [`Ttl`] reads it, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AheadMax {
    /// `none`: a timestamp may be any time.
    Unbounded,
    AtMost(Ttl),
}

impl AheadMax {
    pub const DAY: Self = Self::AtMost(Ttl::DAY);
    const UNBOUNDED: &'static str = "none";

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text == Self::UNBOUNDED {
            return Ok(Self::Unbounded);
        }
        Ttl::parse(text).map(Self::AtMost).map_err(|invalid| Invalid {
            // As with a TTL, a well-formed text may name too long a time.
            code: invalid.code,
            detail:
                "timestamp_ahead_max must be none, or whole numbers with units (y, w, d, h, m, s) from 1s to 7300d, \
                     such as 1d or 12h"
                    .to_owned(),
        })
    }

    /// Whole seconds as stored: 0 stands for no bound.
    pub fn from_secs(secs: u64) -> Result<Self, Invalid> {
        if secs == 0 { Ok(Self::Unbounded) } else { Ttl::from_secs(secs).map(Self::AtMost) }
    }

    /// The reverse of [`AheadMax::from_secs`].
    pub fn as_secs(self) -> u64 {
        match self {
            Self::Unbounded => 0,
            Self::AtMost(ahead) => ahead.as_secs(),
        }
    }

    /// Whether an item of this timestamp may be added at `now`.
    pub fn admits(self, timestamp: Timestamp, now: Timestamp) -> bool {
        match self {
            Self::Unbounded => true,
            Self::AtMost(ahead) => timestamp.as_nanos() <= ahead.expiry_of(now),
        }
    }
}

impl fmt::Display for AheadMax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unbounded => f.write_str(Self::UNBOUNDED),
            Self::AtMost(ahead) => ahead.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_stored_seconds_round_trip() {
        for (text, normal, secs) in
            [("none", "none", 0), ("1d", "1d", 86_400), ("90m", "1h30m", 5_400), ("1s", "1s", 1)]
        {
            let ahead_max = AheadMax::parse(text).unwrap();
            assert_eq!((ahead_max.to_string().as_str(), ahead_max.as_secs()), (normal, secs));
            assert_eq!(AheadMax::from_secs(secs), Ok(ahead_max));
        }
        for bad in ["", "None", "null", "0s", "0", "1 day", "7301d"] {
            assert!(AheadMax::parse(bad).is_err(), "{bad}");
        }
        assert!(AheadMax::from_secs(Ttl::MAX.as_secs() + 1).is_err());
    }

    #[test]
    fn a_timestamp_may_be_ahead_up_to_the_bound() {
        let at = |nanos| Timestamp::from_nanos(nanos).unwrap();
        let second = AheadMax::from_secs(1).unwrap();
        let admits = |nanos| second.admits(at(nanos), at(5));
        assert_eq!([0, 5, 1_000_000_005, 1_000_000_006].map(admits), [true, true, true, false]);
        assert!(AheadMax::Unbounded.admits(Timestamp::MAX, at(5)));
    }
}
