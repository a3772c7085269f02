//! Under which values, and where in their order, an index has a bag.

use std::collections::BTreeSet;

use super::place::OrderValue;
use super::pointer::{Pointer, elements};
use super::scalar::{Scalar, is_of_one, name_of};
use super::{IndexSpec, ShallowDocument};
use crate::domain::{EntityId, Invalid, Timestamp};

/// Entries that one bag has in one index, at most: arrays make several, and several arrays their product.
pub const ENTRIES_MAX: usize = 1_000;

/// One entry of a bag in an index: a list, and the bag's timestamp in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexEntry {
    /// The entity that the list of entries belongs to: the name of the values.
    pub values: EntityId,
    pub place: Timestamp,
}

/// The condition of a query to an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// One value for each of the index's properties, in their order.
    values: Vec<Scalar>,
    min: Option<Bound>,
    max: Option<Bound>,
}

/// A bound of the order of an index. It is inclusive.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Bound {
    Updated(Timestamp),
    Value(OrderValue),
}

impl Bound {
    fn place(&self) -> Timestamp {
        match self {
            Self::Updated(at) => *at,
            Self::Value(value) => value.place(),
        }
    }
}

impl IndexSpec {
    /// The entries of a bag: none if one of the properties is missing, or has no value to be found by, or if the
    /// bag has nothing to be ordered by. Each entry once, in an order that stays.
    pub fn entries(&self, bag: &ShallowDocument<'_>, updated_at: Timestamp) -> Result<Vec<IndexEntry>, TooManyEntries> {
        if let Some(value) = self.only_value(bag) {
            let place = self.place(bag, updated_at);
            let values = EntityId::new(&name_of(&[value])).ok();
            return Ok(values.zip(place).map(|(values, place)| IndexEntry { values, place }).into_iter().collect());
        }
        let Some((values, place)) = self.values(bag).zip(self.place(bag, updated_at)) else { return Ok(Vec::new()) };
        let count = values.iter().try_fold(1_usize, |product, values| product.checked_mul(values.len()));
        if count.is_none_or(|count| count > ENTRIES_MAX) {
            return Err(TooManyEntries);
        }
        let mut combinations = vec![Vec::with_capacity(values.len())];
        for values in &values {
            let longer =
                |combination: &Vec<Scalar>, value: &Scalar| [&**combination, std::slice::from_ref(value)].concat();
            combinations = combinations.iter().flat_map(|c| values.iter().map(move |value| longer(c, value))).collect();
        }
        // Different values may have one name.
        let names: BTreeSet<_> = combinations.iter().map(|values| name_of(values)).collect();
        let entry = |name: String| EntityId::new(&name).ok().map(|values| IndexEntry { values, place });
        Ok(names.into_iter().filter_map(entry).collect())
    }

    /// Whether a bag matches a query, and this entry is the bag's current one. Other entries are left from an earlier
    /// state of the bag, or from values with the same name.
    pub fn holds(
        &self,
        bag: &ShallowDocument<'_>,
        updated_at: Timestamp,
        condition: &Condition,
        entry: Timestamp,
    ) -> bool {
        let Some((values, place)) = self.values(bag).zip(self.place(bag, updated_at)) else { return false };
        let equal = values.iter().zip(&condition.values).all(|(found, wanted)| found.contains(wanted));
        let count = values.iter().try_fold(1_usize, |product, values| product.checked_mul(values.len()));
        equal && place == entry && count.is_some_and(|count| count <= ENTRIES_MAX) && self.within(bag, condition)
    }

    /// Whether entries under a name prove that a bag has its values, if the bag is the one of the entry: the places
    /// are then moments of updates, and no other values have the name.
    pub fn proves_values(&self, name: &EntityId) -> bool {
        self.order_by.is_none() && is_of_one(name.as_str())
    }

    /// Places are coarser than their values.
    fn within(&self, bag: &ShallowDocument<'_>, condition: &Condition) -> bool {
        let Some(value) = self.order_by.as_ref().and_then(|pointer| order_value(pointer, bag)) else { return true };
        let is_after = |bound: &Bound| matches!(bound, Bound::Value(least) if *least > value);
        let is_before = |bound: &Bound| matches!(bound, Bound::Value(most) if *most < value);
        !condition.min.as_ref().is_some_and(is_after) && !condition.max.as_ref().is_some_and(is_before)
    }

    /// The case of most bags in most indexes: one property with one value that is not an array.
    fn only_value(&self, bag: &ShallowDocument<'_>) -> Option<Scalar> {
        let [property] = &self.properties[..] else { return None };
        property.find(bag).and_then(Scalar::of)
    }

    /// Of each property the values that it is found by, each once.
    fn values(&self, bag: &ShallowDocument<'_>) -> Option<Vec<BTreeSet<Scalar>>> {
        let values = self.properties.iter().map(|property| {
            let found = property.find(bag)?;
            let values: BTreeSet<_> = match elements(found) {
                Some(elements) => elements.into_iter().filter_map(Scalar::of).collect(),
                None => Scalar::of(found).into_iter().collect(),
            };
            (!values.is_empty()).then_some(values)
        });
        values.collect()
    }

    fn place(&self, bag: &ShallowDocument<'_>, updated_at: Timestamp) -> Option<Timestamp> {
        match &self.order_by {
            None => Some(updated_at),
            Some(pointer) => order_value(pointer, bag).map(|value| value.place()),
        }
    }

    /// The condition of a query, with values as JSON texts and bounds as texts.
    pub fn condition(&self, values: &[&str], min: Option<&str>, max: Option<&str>) -> Result<Condition, Refused> {
        let wanted = self.properties.len();
        if values.len() != wanted {
            let names: Vec<_> = self.properties.iter().map(Pointer::as_str).collect();
            let given = values.len();
            let names = names.join(", ");
            return Err(Refused::values(Invalid::argument(format!(
                "value must be given once for each property of the index ({names}): expected {wanted}, got {given}"
            ))));
        }
        let values = values.iter().map(|text| Scalar::parse(text)).collect::<Result<_, _>>();
        let bound = |field, text: Option<&str>| {
            let bound = text.map(|text| match self.order_by {
                None => Timestamp::parse(text).map(Bound::Updated),
                Some(_) => OrderValue::parse(text).map(Bound::Value),
            });
            bound.transpose().map_err(|invalid| Refused { field, invalid })
        };
        Ok(Condition { values: values.map_err(Refused::values)?, min: bound("min", min)?, max: bound("max", max)? })
    }
}

fn order_value(pointer: &Pointer, bag: &ShallowDocument<'_>) -> Option<OrderValue> {
    pointer.find(bag).and_then(Scalar::of).and_then(OrderValue::of)
}

impl Condition {
    /// The entity of the list of entries to read.
    pub fn entity(&self) -> Result<EntityId, Invalid> {
        EntityId::new(&name_of(&self.values))
    }

    /// The first and the last place that are wanted.
    pub fn places(&self) -> (Timestamp, Timestamp) {
        let place = |bound: &Option<Bound>, open| bound.as_ref().map_or(open, Bound::place);
        (place(&self.min, Timestamp::MIN), place(&self.max, Timestamp::MAX))
    }
}

/// A bag has more entries in an index than [`ENTRIES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyEntries;

/// Which parameter of a query is refused, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub field: &'static str,
    pub invalid: Invalid,
}

impl Refused {
    fn values(invalid: Invalid) -> Self {
        Self { field: "value", invalid }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::MIN;

    fn index(properties: &[&str], order_by: Option<&str>) -> IndexSpec {
        let properties = properties.iter().map(|p| Pointer::new(p).unwrap()).collect();
        IndexSpec::new(properties, order_by.map(|p| Pointer::new(p).unwrap())).unwrap()
    }

    fn names(index: &IndexSpec, bag: &str) -> Vec<String> {
        let entries = index.entries(&ShallowDocument::parse(bag.as_bytes()).unwrap(), NOW).unwrap();
        entries.iter().map(|entry| entry.values.as_str().to_owned()).collect()
    }

    #[test]
    fn a_bag_has_an_entry_for_each_combination_of_its_values() {
        let link = r#"{"user_id": 5, "tags": ["b", "a", "b", ["c"], {}], "note": {"seen": true}, "none": null}"#;
        assert_eq!(names(&index(&["/user_id"], None), link), ["[5]"]);
        assert_eq!(names(&index(&["/tags", "/user_id"], None), link), [r#"["a",5]"#, r#"["b",5]"#]);
        assert_eq!(names(&index(&["/note/seen", "/none"], None), link), ["[true,null]"]);
        assert_eq!(names(&index(&["/tags/3"], None), link), [r#"["c"]"#]);
        for missing in ["/nothing", "/note", "/tags/4", "/tags/9"] {
            assert!(names(&index(&["/user_id", missing], None), link).is_empty(), "{missing}");
        }
        assert!(names(&index(&["/user_id"], Some("/none")), link).is_empty());
    }

    #[test]
    fn entries_of_a_bag_are_bounded() {
        let bag = |n: usize| format!("{{\"a\": {0:?}, \"b\": {0:?}}}", (0..n).collect::<Vec<_>>());
        let both = index(&["/a", "/b"], None);
        let entries =
            |n| both.entries(&ShallowDocument::parse(bag(n).as_bytes()).unwrap(), NOW).map(|entries| entries.len());
        assert_eq!((entries(31), entries(32)), (Ok(961), Err(TooManyEntries)));
    }

    #[test]
    fn a_bag_matches_only_its_present_entry() {
        let by_score = index(&["/country"], Some("/score"));
        let condition = |value, min, max| by_score.condition(&[value], min, max).unwrap();
        let bag = ShallowDocument::parse(br#"{"country": ["GB", "FR"], "score": 7.5}"#).unwrap();
        let [entry, _] = &by_score.entries(&bag, NOW).unwrap()[..] else { panic!("two entries") };
        let holds = |condition, place| by_score.holds(&bag, NOW, &condition, place);
        assert!(holds(condition("\"GB\"", None, None), entry.place));
        assert!(holds(condition("\"FR\"", Some("7.5"), Some("7.5")), entry.place));
        let earlier = Timestamp::from_nanos(entry.place.as_nanos() - 1).unwrap();
        assert!(!holds(condition("\"GB\"", None, None), earlier));
        assert!(!holds(condition("\"DE\"", None, None), entry.place));
        // Places are the same here.
        assert!(!holds(condition("\"GB\"", Some("7.5000000000000001"), None), entry.place));
        assert!(!holds(condition("\"GB\"", None, Some("7.4999999999999999")), entry.place));
        assert_eq!(condition("\"GB\"", Some("7.4999999999999999"), None).places().0, entry.place);
    }

    #[test]
    fn entries_reveal_short_values_of_unordered_indexes() {
        let name = |index: &IndexSpec, value: &str| index.condition(&[value], None, None).unwrap().entity().unwrap();
        let proves = |index: &IndexSpec, value: &str| index.proves_values(&name(index, value));
        assert!(proves(&index(&["/a"], None), "\"GB\"") && proves(&index(&["/a"], None), "1e5"));
        assert!(!proves(&index(&["/a"], None), &format!("\"{}\"", "a".repeat(600))));
        assert!(!proves(&index(&["/a"], Some("/b")), "\"GB\""));
    }

    #[test]
    fn a_query_gives_each_property_one_value() {
        let both = index(&["/a", "/b"], None);
        let field = |values: &[&str], min, max| both.condition(values, min, max).map_err(|refused| refused.field);
        assert!(field(&["1", "\"x\""], Some("2024-08-29T16:44:05Z"), Some("9999999999999999999")).is_ok());
        assert_eq!(field(&["1"], None, None), Err("value"));
        assert_eq!(field(&["1", "2", "3"], None, None), Err("value"));
        assert_eq!(field(&["1", "x"], None, None), Err("value"));
        assert_eq!(field(&["1", "2"], Some("x"), None), Err("min"));
        assert_eq!(field(&["1", "2"], None, Some("-1")), Err("max"));
    }
}
