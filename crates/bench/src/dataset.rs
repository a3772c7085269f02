//! The data set that a server reports.
//!
//! The feature's labels describe the data set. So a run needs no options that the load had, an interrupted load can be
//! completed, and a complete one is not repeated. In Redis a hash has the same fields.

use std::collections::BTreeMap;
use std::time::Duration;

use super::data::DataSet;
use super::shape::Shape;

const LISTS: &str = "bench_lists";
const LENGTH: &str = "bench_length";
const VALUE_BYTES: &str = "bench_value_bytes";
const OLDEST: &str = "bench_oldest_nanos";
const SPACING: &str = "bench_spacing_nanos";
const LOADED: &str = "bench_loaded";
const INTACT: &str = "bench_intact";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Description {
    pub data: DataSet,
    /// The load ended.
    pub loaded: bool,
    /// Nothing has been removed since.
    pub intact: bool,
}

impl Description {
    pub fn to_labels(self) -> BTreeMap<String, String> {
        let Self { data, loaded, intact } = self;
        [
            (LISTS, data.lists.to_string()),
            (LENGTH, data.length.to_string()),
            (VALUE_BYTES, data.value_bytes.to_string()),
            (OLDEST, data.oldest_nanos.to_string()),
            (SPACING, data.spacing_nanos.to_string()),
            (LOADED, loaded.to_string()),
            (INTACT, intact.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// None if these are not the labels of a data set.
    pub fn from_labels(labels: &BTreeMap<String, String>) -> Option<Self> {
        fn read<T: std::str::FromStr>(labels: &BTreeMap<String, String>, name: &str) -> Option<T> {
            labels.get(name)?.parse().ok()
        }
        let data = DataSet {
            lists: read(labels, LISTS).filter(|lists| *lists > 0)?,
            length: read(labels, LENGTH).filter(|length| *length > 0)?,
            value_bytes: read(labels, VALUE_BYTES)?,
            oldest_nanos: read(labels, OLDEST)?,
            spacing_nanos: read(labels, SPACING).filter(|nanos| *nanos > 0)?,
        };
        Some(Self { data, loaded: read(labels, LOADED)?, intact: read(labels, INTACT)? })
    }
}

/// The action on the data set before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Create and load it.
    Create(DataSet),
    /// Load it, again from the beginning: existing items stay as they are.
    Load(DataSet),
    /// It exists.
    Use(Description),
    /// The lists contain another data set.
    Foreign(DataSet),
}

/// The existing data under the requested names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundData {
    Nothing,
    /// Something that no bench has loaded.
    Foreign,
    DataSet(Description),
}

/// Decides the next action. `name` is for messages, `now_nanos` the current time.
pub fn decide(load: bool, shape: &Shape, found: FoundData, name: &str, now_nanos: u64) -> Result<Decision, String> {
    match found {
        FoundData::Nothing if load => Ok(Decision::Create(shape.data_set(now_nanos)?)),
        FoundData::Nothing => Err(format!("the data set {name} does not exist: pass --load to create it")),
        FoundData::Foreign if load => {
            Err(format!("{name} exists and is not a data set of liststore bench: name another with --feature"))
        }
        FoundData::Foreign if shape.lists.is_none() => Err(format!(
            "{name} is not a data set of liststore bench: pass --lists N to use the lists list-00000000 to N - 1 \
             unchanged"
        )),
        FoundData::Foreign => Ok(Decision::Foreign(shape.data_set(now_nanos)?)),
        FoundData::DataSet(there) => {
            let data = &there.data;
            // Fewer lists may be used than there are.
            let lists_fit =
                shape.lists.is_none_or(|lists| if load { lists == data.lists } else { lists <= data.lists });
            let same = lists_fit
                && shape.length.is_none_or(|length| length == data.length)
                && shape.value_bytes.is_none_or(|bytes| bytes == data.value_bytes)
                && shape.spacing.is_none_or(|spacing| spacing.as_nanos() == u128::from(data.spacing_nanos));
            if !same {
                let spacing = Duration::from_nanos(data.spacing_nanos);
                return Err(format!(
                    "{name} has a different data set: {} lists of {} items, {spacing:?} apart, with values of {} \
                     bytes; name another with --feature, or delete it",
                    data.lists, data.length, data.value_bytes
                ));
            }
            if load && !there.loaded {
                return Ok(Decision::Load(*data));
            }
            let used = DataSet { lists: shape.lists.unwrap_or(data.lists), ..*data };
            Ok(Decision::Use(Description { data: used, ..there }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: DataSet = DataSet {
        lists: 100,
        length: 20,
        value_bytes: 12,
        oldest_nanos: 1_700_000_000_000_000_000,
        spacing_nanos: 60_000_000_000,
    };
    const THERE: Description = Description { data: DATA, loaded: true, intact: true };
    const ANY: Shape = Shape { lists: None, length: None, value_bytes: None, spacing: None };
    const NOW: u64 = 1_800_000_000_000_000_000;

    fn decision(load: bool, shape: Shape, found: FoundData) -> Result<Decision, String> {
        decide(load, &shape, found, "bench lists", NOW)
    }

    #[test]
    fn labels_describe_a_data_set() {
        for (loaded, intact) in [(true, false), (false, true)] {
            let description = Description { data: DATA, loaded, intact };
            assert_eq!(Description::from_labels(&description.to_labels()), Some(description));
        }
        let mut labels = THERE.to_labels();
        labels.insert(SPACING.into(), "0".into());
        assert_eq!(Description::from_labels(&labels), None);
        assert_eq!(Description::from_labels(&BTreeMap::new()), None);
    }

    #[test]
    fn a_data_set_is_loaded_once() {
        let Ok(Decision::Create(data)) = decision(true, ANY, FoundData::Nothing) else { panic!() };
        assert_eq!(data.timestamp(0, data.length) / 60_000_000_000, NOW / 60_000_000_000);
        assert_eq!(decision(true, ANY, FoundData::DataSet(THERE)), Ok(Decision::Use(THERE)));
        let half = Description { loaded: false, ..THERE };
        assert_eq!(decision(true, ANY, FoundData::DataSet(half)), Ok(Decision::Load(DATA)));
        assert_eq!(decision(false, ANY, FoundData::DataSet(half)), Ok(Decision::Use(half)));
    }

    #[test]
    fn another_data_set_is_never_changed() {
        assert!(decision(false, ANY, FoundData::Nothing).unwrap_err().contains("--load"));
        assert!(decision(true, ANY, FoundData::Foreign).unwrap_err().contains("--feature"));
        assert!(decision(false, ANY, FoundData::Foreign).unwrap_err().contains("--lists"));
        let fewer = Shape { lists: Some(10), ..ANY };
        assert!(matches!(decision(false, fewer, FoundData::Foreign), Ok(Decision::Foreign(data)) if data.lists == 10));
        for (load, shape) in [
            (true, fewer),
            (false, Shape { lists: Some(101), ..ANY }),
            (false, Shape { length: Some(21), ..ANY }),
            (true, Shape { value_bytes: Some(13), ..ANY }),
            (true, Shape { spacing: Some(Duration::from_secs(1)), ..ANY }),
        ] {
            assert!(
                decision(load, shape, FoundData::DataSet(THERE)).unwrap_err().contains("has a different"),
                "{shape:?}"
            );
        }
        let Ok(Decision::Use(used)) = decision(false, fewer, FoundData::DataSet(THERE)) else { panic!() };
        assert_eq!((used.data.lists, used.data.length), (10, 20));
    }
}
