//! Which job something is about.

use std::fmt;

use super::Invalid;

/// The ID of background work: 32 digits of 0-9 a-f, in the order of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u128);

impl JobId {
    pub fn new(number: u128) -> Self {
        Self(number)
    }

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let id = u128::from_str_radix(text, 16).ok().map(Self).filter(|id| id.to_string() == text);
        id.ok_or_else(|| Invalid::argument("a job's ID must be 32 digits of 0-9 a-f"))
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_in_its_written_form_only() {
        let id = JobId::new(0xabc);
        let text = id.to_string();
        assert_eq!(JobId::parse(&text), Ok(id));
        for bad in ["", "abc", &text.to_uppercase(), &format!("+{}", &text[1..]), &format!("{text}0"), &text[1..]] {
            assert!(JobId::parse(bad).is_err(), "{bad}");
        }
    }
}
