//! The order of results: which groups are shown, and the most frequent values of each.

use std::collections::HashMap;

use serde_json::Value;

use super::room::{NoValue, Room};
use super::times::{Mixed, Times};
use super::values::{Form, Values};

/// The values of a source in the results of a window.
pub struct Ranked {
    /// Of each result, as many values as the longest `top` has, and their counts.
    pub most_frequent: Vec<Vec<(u32, u64)>>,
    /// How many values the last result has, if that is several groups together.
    pub distinct_together: Option<u64>,
}

impl Ranked {
    pub fn most_frequent(&self, rank: usize) -> &[(u32, u64)] {
        self.most_frequent.get(rank).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Which groups are shown.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'g> {
    /// By rank.
    pub alone: &'g [usize],
    /// All others. If there are any, they have the last rank.
    pub together: &'g [usize],
}

impl Shown<'_> {
    /// How many results there are.
    pub fn count(self) -> usize {
        self.alone.len() + usize::from(self.is_cut())
    }

    pub fn is_cut(self) -> bool {
        !self.together.is_empty()
    }

    /// How often each value comes in each result, where that is needed: for `top`, and to count the values of several
    /// groups together.
    pub fn values_of(self, is_top: bool, all: &Times, mixed: Mixed) -> Vec<Vec<(u32, u64)>> {
        let last = self.alone.len();
        let mut ranks = vec![last; last + self.together.len()];
        (0..).zip(self.alone).for_each(|(rank, group)| ranks[*group] = rank);
        let mut values_of = vec![Vec::new(); self.count()];
        let mut together: HashMap<u32, u64, Mixed> = HashMap::with_hasher(mixed);
        all.each(|group, identity, times| {
            let rank = ranks[group];
            if rank == last {
                *together.entry(identity).or_insert(0) += times;
            } else if is_top {
                values_of[rank].push((identity, times));
            }
        });
        if let Some(others) = values_of.get_mut(last) {
            *others = together.into_iter().collect();
        }
        values_of
    }
}

/// Keeps the most frequent values: these first, and of equal counts the lowest value.
pub fn keep_most_frequent(form: Form, k: usize, values: &Values, counts: &mut Vec<(u32, u64)>) {
    let rank = |(one, ones): &(u32, u64), (other, others): &(u32, u64)| {
        others.cmp(ones).then_with(|| form.order(values.get(*one), values.get(*other)))
    };
    if counts.len() > k {
        if k > 0 {
            counts.select_nth_unstable_by(k, rank);
        }
        counts.truncate(k);
        counts.shrink_to_fit();
    }
    counts.sort_unstable_by(rank);
}

/// The first values of those that are ranked.
pub fn top(form: Form, k: usize, values: &Values, ranked: &[(u32, u64)], room: &mut Room) -> Result<Value, NoValue> {
    let shown = |(value, count): &(u32, u64)| {
        let value = form.to_json(values.get(*value)).ok_or(NoValue::Damaged)?;
        room.taking([("value", value), ("count", (*count).into())].into_iter().collect())
    };
    ranked.iter().take(k).map(shown).collect::<Result<Vec<_>, _>>().map(Value::Array)
}
