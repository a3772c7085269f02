//! The rules for the groups of an answer: the groups with the most items, in order, and the remaining groups as one.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use crate::history::{Group, Groups, ValueType};

/// Or the promise that was broken, and how.
type Fits = Result<(), (&'static str, String)>;

const GROUPS: &str = "groups are those of the request, in their order";

/// Whether a value or group comes before another one: more items, and of equal counts a lower value.
pub fn ranks_before(
    value_type: ValueType,
    (one, ones): (&str, u64),
    (other, others): (&str, u64),
) -> Result<bool, (&'static str, String)> {
    Ok(match ones.cmp(&others) {
        Ordering::Equal => value_type.order(one, other).map_err(|error| (GROUPS, error))? == Ordering::Less,
        unequal => unequal == Ordering::Greater,
    })
}

pub fn check_groups(value_type: ValueType, groups: &Groups) -> Fits {
    let Groups { by, shown } = groups;
    let named: Vec<(&str, u64)> =
        shown.iter().filter_map(|group| Some((group.value.as_deref()?, group.count))).collect();
    let is_cut = named.len() < shown.len();
    let are_few = named.len() <= by.max_groups && shown.len() - named.len() <= 1;
    let is_last_other = shown.iter().rev().skip(1).all(|group| group.value.is_some());
    if !are_few || !is_last_other || (is_cut && named.len() < by.max_groups) {
        return Err((GROUPS, format!("{} groups of {}, with others: {is_cut}", named.len(), by.max_groups)));
    }
    for pair in named.windows(2) {
        if !ranks_before(value_type, pair[0], pair[1])? {
            return Err((GROUPS, format!("{pair:?} in this order")));
        }
    }
    let names: HashSet<&str> = named.iter().map(|(name, _)| *name).collect();
    for Group { value: name, count, results } in shown {
        if *count != results.count || *count == 0 {
            return Err((GROUPS, format!("{name:?} of {count} items counts {}", results.count)));
        }
        for (value, _) in &results.values {
            let group = by.group_of(value);
            let is_here = match (name, &group) {
                (_, None) => false,
                (Some(name), Some(group)) => name == group,
                (None, Some(group)) => !names.contains(&**group),
            };
            if !is_here {
                return Err((GROUPS, format!("{value} of the group {group:?} in {name:?}")));
            }
        }
    }
    match (named.last(), shown.last().filter(|_| is_cut)) {
        (Some(last), Some(others)) => check_others(value_type, groups, *last, others),
        _ => Ok(()),
    }
}

/// No hidden group comes before the last visible group.
fn check_others(value_type: ValueType, groups: &Groups, last: (&str, u64), others: &Group) -> Fits {
    let mut counts: HashMap<String, u64> = HashMap::new();
    for (value, count) in &others.results.values {
        let group = groups.by.group_of(value).unwrap_or_default().into_owned();
        *counts.entry(group).or_default() += count;
    }
    for (group, count) in &counts {
        // A count is too low if it lacks values. Then the group may come before its place here, and not behind it.
        let is_behind = ranks_before(value_type, last, (group.as_str(), *count))?;
        if !is_behind {
            return Err((GROUPS, format!("{last:?} before {count} of {group}")));
        }
    }
    Ok(())
}
