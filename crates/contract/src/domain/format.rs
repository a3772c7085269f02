//! The formats of stored data. Each kind of data has one number, which every change of its form raises by one.

use std::fmt;

/// Why data of a format cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatError {
    /// A newer program wrote it.
    Newer { found: u64, known: u64 },
    /// No program writes this number.
    Unknown,
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newer { found, known } => {
                write!(f, "a newer liststore wrote it (format {found}, this version supports {known})")
            }
            Self::Unknown => f.write_str("its format is unknown"),
        }
    }
}

/// The formats of one kind of data: the first is 1, and each upgrade leads from one format to the next.
///
/// A change of a form appends one upgrade, which gives the new form its number.
#[derive(Debug)]
pub struct Formats<U: 'static> {
    upgrades: &'static [U],
}

impl<U> Formats<U> {
    /// `upgrades[0]` leads from format 1 to 2.
    pub const fn new(upgrades: &'static [U]) -> Self {
        Self { upgrades }
    }

    /// The format that this program writes.
    pub const fn present(&self) -> u64 {
        self.upgrades.len() as u64 + 1
    }

    /// The upgrades that lead from a found format to the current one, in their order.
    pub fn upgrades_from(&self, found: u64) -> Result<&'static [U], FormatError> {
        let known = self.present();
        let done = found.checked_sub(1).ok_or(FormatError::Unknown)?;
        let due = usize::try_from(done).ok().and_then(|done| self.upgrades.get(done..));
        due.ok_or(FormatError::Newer { found, known })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_data_is_upgraded_step_by_step_and_newer_data_is_refused() {
        const FORMATS: Formats<fn(&mut String)> =
            Formats::new(&[|text| text.push_str(", one to two"), |text| text.push_str(", two to three")]);
        let upgraded = |found| {
            let mut text = "data".to_owned();
            let upgrades = FORMATS.upgrades_from(found)?;
            upgrades.iter().for_each(|upgrade| upgrade(&mut text));
            Ok(text)
        };
        assert_eq!(FORMATS.present(), 3);
        assert_eq!(upgraded(1).as_deref(), Ok("data, one to two, two to three"));
        assert_eq!(upgraded(2).as_deref(), Ok("data, two to three"));
        assert_eq!(upgraded(3).as_deref(), Ok("data"));
        assert_eq!(upgraded(0), Err(FormatError::Unknown));
        for found in [4, u64::MAX] {
            assert_eq!(upgraded(found), Err(FormatError::Newer { found, known: 3 }));
        }
        let refused = FormatError::Newer { found: 4, known: 3 }.to_string();
        assert_eq!(refused, "a newer liststore wrote it (format 4, this version supports 3)");
    }
}
