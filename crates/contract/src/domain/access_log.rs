//! Of which requests the log has a line.

use std::fmt;

use super::Invalid;

/// Which requests have a separate line in the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AccessLog {
    #[default]
    Off,
    /// Requests that were answered with a status of 400 or above.
    Errors,
    All,
}

impl AccessLog {
    pub const ALL: [Self; 3] = [Self::Off, Self::Errors, Self::All];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Errors => "errors",
            Self::All => "all",
        }
    }

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let known = Self::ALL.into_iter().find(|mode| mode.as_str() == text);
        known.ok_or_else(|| Invalid::argument("must be off, errors or all"))
    }

    /// Whether a request that was answered with this status has a line.
    pub fn takes(self, status: u16) -> bool {
        match self {
            Self::Off => false,
            Self::Errors => status >= 400,
            Self::All => true,
        }
    }
}

impl fmt::Display for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
