//! Time to live: how long an item is visible after its timestamp, and the arithmetic of expiry.

use std::fmt;
use std::time::Duration;

use super::{Invalid, Timestamp};

const NANOS_PER_SEC: u64 = 1_000_000_000;
/// Units in their mandatory order: years of 365 days, weeks, days, hours, minutes and seconds.
const UNITS: [(char, u64); 6] = [('y', 31_536_000), ('w', 604_800), ('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];
/// The units of normalised texts begin with days.
const NORMAL_FROM: usize = 2;

/// A time to live in whole seconds, from 1 s to 630,720,000 s: 20 years of 365 days, the maximum of Cassandra and
/// ScyllaDB (Cassandra's `Attributes.MAX_TTL`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u32);

/// It must be stored, and expires at this moment, in nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The item must be stored, and expires at this moment, in nanoseconds since the Unix epoch.
    Live { expires_at: u64 },
    /// It has expired already: it is counted, and not stored.
    AlreadyExpired,
}

impl Ttl {
    pub const MIN: Self = Self(1);
    pub const DAY: Self = Self(86_400);
    pub const MAX: Self = Self(630_720_000);
    /// For lists whose items end only by the expiry that they were stored with: their timestamps are places in an
    /// order and no moments. It is longer than all time since 1970, up to the year 2106, and never the TTL of a
    /// definition.
    pub const ENDLESS: Self = Self(u32::MAX);

    #[inline]
    pub fn from_secs(secs: u64) -> Result<Self, Invalid> {
        match u32::try_from(secs) {
            Ok(0) => Err(Invalid::argument("a ttl must be at least 1s")),
            Ok(secs) if secs <= Self::MAX.0 => Ok(Self(secs)),
            _ => Err(Invalid::ttl_too_long("a ttl must be at most 7300d (20 years)")),
        }
    }

    /// Characters of a text that is read: more are leading zeros, or far beyond the longest life.
    pub const CHARS_MAX: usize = 64;

    /// Reads whole numbers with units, each unit at most once and the largest first: `30d`, `12h`,
    /// `90m`, `45s`, `1d12h`, `2w`, `1y`.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let malformed = || {
            Invalid::argument(
                "a ttl must be whole numbers with units y, w, d, h, m, s, largest first, such as 30d or 1d12h",
            )
        };
        let (mut rest, mut units, mut secs) = (text, UNITS.as_slice(), 0_u64);
        if rest.is_empty() {
            return Err(malformed());
        }
        if text.len() > Self::CHARS_MAX {
            return Err(Invalid::argument(format!("a ttl must be at most {} characters", Self::CHARS_MAX)));
        }
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, tail) = rest.split_at(digits);
            let unit = tail.chars().next().ok_or_else(malformed)?;
            let place = units.iter().position(|(name, _)| *name == unit).ok_or_else(malformed)?;
            if number.is_empty() {
                return Err(malformed());
            }
            // Numbers beyond u64 saturate: they are too long, not malformed.
            let count: u64 = number.parse().unwrap_or(u64::MAX);
            secs = secs.saturating_add(count.saturating_mul(units[place].1));
            units = &units[place + 1..];
            rest = &tail[1..];
        }
        Self::from_secs(secs)
    }

    #[inline]
    pub fn as_secs(self) -> u64 {
        u64::from(self.0)
    }

    #[inline]
    pub fn as_duration(self) -> Duration {
        Duration::from_secs(self.as_secs())
    }

    fn as_nanos(self) -> u64 {
        self.as_secs() * NANOS_PER_SEC
    }

    /// The first moment at which an item of this timestamp is no longer visible, in nanoseconds since the Unix epoch.
    /// It may exceed [`Timestamp::MAX`], but always fits a `u64`.
    #[inline]
    pub fn expiry_of(self, timestamp: Timestamp) -> u64 {
        timestamp.as_nanos() + self.as_nanos()
    }

    /// The oldest timestamp that is visible at `now`: an item is visible if and only if
    /// `now < timestamp + ttl`, that is from `now - ttl + 1 ns` on.
    #[inline]
    pub fn visible_from(self, now: Timestamp) -> Timestamp {
        Timestamp::saturating_from_nanos(u128::from((now.as_nanos() + 1).saturating_sub(self.as_nanos())))
    }

    /// Decides about an item that a caller adds at `now`. Its stored expiry is at most [`Ttl::MAX`] from now, the
    /// maximum of stores. So an item whose timestamp is ahead of the server's clock ends that much sooner.
    #[inline]
    pub fn admit(self, timestamp: Timestamp, now: Timestamp) -> Admission {
        let expires_at = self.expiry_of(timestamp);
        if expires_at <= now.as_nanos() {
            return Admission::AlreadyExpired;
        }
        Admission::Live { expires_at: expires_at.min(Self::MAX.expiry_of(now)) }
    }
}

impl Default for Ttl {
    /// As long as anything may live.
    fn default() -> Self {
        Self::MAX
    }
}

impl fmt::Display for Ttl {
    /// Normalised, largest unit first: `90m` is written as `1h30m`, and `1y` as `365d`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.as_secs();
        for (unit, secs) in &UNITS[NORMAL_FROM..] {
            let (unit, secs) = (*unit, *secs);
            if rest >= secs {
                write!(f, "{}{unit}", rest / secs)?;
                rest %= secs;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::Code;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos).unwrap()
    }

    #[test]
    fn texts_are_read_and_normalised() {
        for (text, normal, secs) in [
            ("30d", "30d", 2_592_000),
            ("12h", "12h", 43_200),
            ("90m", "1h30m", 5_400),
            ("45s", "45s", 45),
            ("1d12h", "1d12h", 129_600),
            ("36h", "1d12h", 129_600),
            ("0d1s", "1s", 1),
            ("7300d", "7300d", 630_720_000),
            ("2w", "14d", 1_209_600),
            ("1y", "365d", 31_536_000),
            ("1y2w3d", "382d", 33_004_800),
            ("20y", "7300d", 630_720_000),
        ] {
            let ttl = Ttl::parse(text).unwrap();
            assert_eq!((ttl.as_secs(), ttl.to_string().as_str()), (secs, normal), "{text}");
        }
    }

    #[test]
    fn anything_but_a_ttl_is_refused() {
        for bad in [
            "", "5", "d", "-1d", "+1d", "1.5d", "1 d", "1d 2h", "2h1d", "1d1d", "1d1w", "1M", "30days", "1é", "0s",
            "0d0h",
        ] {
            assert_eq!(Ttl::parse(bad).map_err(|e| e.code), Err(Code::InvalidArgument), "{bad:?}");
        }
        let padded = |zeros| format!("{}1s", "0".repeat(zeros));
        assert_eq!(Ttl::parse(&padded(Ttl::CHARS_MAX - 2)).map(Ttl::as_secs).ok(), Some(1));
        let too_long = Ttl::parse(&padded(Ttl::CHARS_MAX - 1));
        assert_eq!(too_long.map_err(|e| e.code), Err(Code::InvalidArgument));
        for long in ["21y", "7301d", "7300d1s", "99999999999999999999d", "18446744073709551615d18446744073709551615h"] {
            assert_eq!(Ttl::parse(long).map_err(|e| e.code), Err(Code::TtlTooLong), "{long:?}");
        }
    }

    #[test]
    fn an_item_is_visible_until_just_before_its_expiry() {
        let ttl = Ttl::from_secs(1).unwrap();
        assert_eq!(ttl.visible_from(at(5_000_000_000)), at(4_000_000_001));
        assert_eq!(ttl.visible_from(at(999_999_999)), at(0));
        assert_eq!(ttl.visible_from(at(1_000_000_000)), at(1));
    }

    #[test]
    fn admission_omits_expired_items_and_caps_the_stored_expiry() {
        let (ttl, now) = (Ttl::from_secs(10).unwrap(), at(100_000_000_000));
        assert_eq!(ttl.admit(at(90_000_000_000), now), Admission::AlreadyExpired);
        assert_eq!(ttl.admit(at(0), now), Admission::AlreadyExpired);
        assert_eq!(ttl.admit(at(90_000_000_001), now), Admission::Live { expires_at: 100_000_000_001 });
        let limit = 100_000_000_000 + 630_720_000 * NANOS_PER_SEC;
        for ahead in [0, 1, NANOS_PER_SEC] {
            let admitted = ttl.admit(at(limit - 10 * NANOS_PER_SEC + ahead), now);
            assert_eq!(admitted, Admission::Live { expires_at: limit }, "{ahead}");
        }
        // A client's clock is 50 ms ahead, and the feature has the longest TTL.
        assert_eq!(Ttl::MAX.admit(at(100_050_000_000), now), Admission::Live { expires_at: limit });
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_round_trips(text in r".{0,20}|([0-9]{1,22}[ywdhms]){1,4}|[0-9]{1,9}d[0-9]{1,9}s") {
            if let Ok(ttl) = Ttl::parse(&text) {
                prop_assert_eq!(Ttl::parse(&ttl.to_string()).unwrap(), ttl);
            }
        }

        #[test]
        fn texts_round_trip(secs in 1..=630_720_000_u64) {
            let ttl = Ttl::from_secs(secs).unwrap();
            prop_assert_eq!(Ttl::parse(&ttl.to_string()).unwrap(), ttl);
        }

        #[test]
        fn visibility_and_admission_agree(secs in 1..=630_720_000_u64, t: u64, now: u64) {
            let (t, now) = (at(t % Timestamp::MAX.as_nanos()), at(now % Timestamp::MAX.as_nanos()));
            let ttl = Ttl::from_secs(secs).unwrap();
            let visible = t >= ttl.visible_from(now);
            prop_assert_eq!(visible, ttl.admit(t, now) != Admission::AlreadyExpired);
        }
    }
}
