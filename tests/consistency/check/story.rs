//! A history list by list: for each item, the calls that can have added and removed it, and for each reading call, its
//! result.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::expiry::{Expiry, Sight};
use crate::history::{
    Aggregated, Aggregates, Call, History, Item, Key, ListName, Moment, NANOS_PER_SEC, Order, Outcome, Promises,
    Request, ValueType,
};

/// How much longer than it should a row lives on CQL, at most: its TTL is in whole seconds, rounded
/// up, with one more for a coordinator that counts from its own second, and the second in which it
/// ends is counted too. It counts from when the row is written, some time after the add began.
const ROW_EXPIRY_LATE: Moment = 3 * NANOS_PER_SEC;
/// A removal by time that takes less than this, as the API writes it, does so at one instant.
const BYTES_AT_ONCE: usize = 4 << 20;

/// A possible addition of an item to its list, or a removal.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    pub call: usize,
    pub from: Moment,
    pub latest: Moment,
    /// Its answer does not confirm that it changed this item.
    pub optional: bool,
}

pub struct ItemStory {
    pub item: Item,
    pub adds: Vec<Change>,
    pub removals: Vec<Change>,
}

/// A page, or the answer of a search for values or of an aggregation, as the list's items see it.
pub struct Observation {
    pub call: usize,
    /// The items of the story, by place, that it had to report.
    pub covered: Vec<usize>,
    /// For each item of the story, by place, whether it was in it.
    pub seen: Vec<bool>,
    /// The items behind the page, if it had a token for more.
    pub behind: Option<Range<usize>>,
    /// How many of some items with one value it reported, without saying which.
    pub some: Vec<(Vec<usize>, u64)>,
}

/// The items of a window with one value, and how many of them an answer counts.
pub struct CountedValue<'s> {
    /// By place, in the order of the list.
    pub places: Vec<usize>,
    pub value: &'s str,
    pub count: u64,
    /// The answer may lack older items.
    pub is_cut: bool,
}

impl CountedValue<'_> {
    /// Whether all of its items, or none, were there. Otherwise the answer does not say which were.
    pub fn is_clear(&self) -> Option<bool> {
        match self.count {
            0 => Some(false),
            count if count == self.places.len() as u64 => Some(true),
            _ => None,
        }
    }
}

pub struct Story<'a> {
    pub list: ListName,
    pub value_type: ValueType,
    /// In the order of the list, ascending.
    pub items: Vec<ItemStory>,
    pub keys: Vec<Key>,
    /// Calls on this list, by place in the history.
    pub calls: Vec<usize>,
    /// The calls that empty the list: Remove All, and the deletion or creation of its version.
    pub clears: Vec<Change>,
    /// The places of the items that have a value.
    pub by_value: HashMap<String, Vec<usize>>,
    /// The pages that were answered.
    pub observations: Vec<Observation>,
    places: HashMap<&'a Item, usize>,
    /// For each item, whether every call sees it if it exists.
    lasting: Vec<bool>,
    pub expiry: &'a Expiry<'a>,
    history: &'a History,
}

pub struct Stories<'a> {
    history: &'a History,
    expiry: Expiry<'a>,
    by_list: BTreeMap<ListName, Vec<usize>>,
    /// The calls that can empty whole lists.
    emptying: Vec<usize>,
}

impl<'a> Stories<'a> {
    pub fn of(history: &'a History) -> Result<Self, String> {
        let mut by_list: BTreeMap<ListName, Vec<usize>> = BTreeMap::new();
        let mut emptying = Vec::new();
        for (index, call) in history.calls.iter().enumerate() {
            if can_empty(call) {
                emptying.push(index);
            }
            if let Some(list) = call.request.list().filter(|list| !history.special.contains_key(&list.version.feature))
            {
                history.value_type(list)?;
                by_list.entry(list.clone()).or_default().push(index);
            }
        }
        Ok(Self { history, expiry: Expiry::of(history), by_list, emptying })
    }

    pub fn iter(&self) -> impl Iterator<Item = Result<Story<'_>, String>> {
        self.by_list.iter().map(|(list, calls)| Story::of(self, list, calls))
    }
}

/// A call that may have changed something, with its span.
fn change(history: &History, index: usize, optional: bool) -> Change {
    let call = &history.calls[index];
    Change { call: index, from: call.from, latest: history.latest(call), optional: optional || call.unknown() }
}

impl<'a> Story<'a> {
    fn of(stories: &'a Stories<'a>, list: &ListName, calls: &[usize]) -> Result<Self, String> {
        let Stories { history, expiry, emptying, .. } = stories;
        let value_type = history.value_type(list)?;
        let mut items: BTreeMap<Key, ItemStory> = BTreeMap::new();
        let mut by_text: HashMap<&'a Item, Key> = HashMap::new();
        for index in calls {
            let Request::Add { items: sent, .. } = &history.calls[*index].request else { continue };
            for item in sent {
                let key = match by_text.get(item) {
                    Some(key) => key.clone(),
                    None => value_type.key(item)?,
                };
                by_text.entry(item).or_insert_with(|| key.clone());
                let fresh = || ItemStory { item: item.clone(), adds: Vec::new(), removals: Vec::new() };
                let story = items.entry(key).or_insert_with(fresh);
                if let Some(optional) = added(history, expiry, list, &history.calls[*index], item) {
                    story.adds.push(change(history, *index, optional));
                }
            }
        }
        let clears = clears(history, emptying, list);
        let (keys, mut items): (Vec<Key>, Vec<ItemStory>) = items.into_iter().unzip();
        let mut by_value: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, story) in items.iter_mut().enumerate() {
            by_value.entry(story.item.value.clone()).or_default().push(place);
            story.removals.clone_from(&clears);
        }
        let place = |key: &Key| keys.binary_search(key).map_err(|_| "a key is lost".to_owned());
        let places = by_text.into_iter().map(|(item, key)| Ok((item, place(&key)?))).collect::<Result<_, String>>()?;
        let mut story = Self {
            list: list.clone(),
            value_type,
            items,
            keys,
            calls: calls.to_vec(),
            clears,
            by_value,
            observations: Vec::new(),
            places,
            lasting: Vec::new(),
            expiry,
            history,
        };
        let last = history.calls.iter().map(|call| call.to).max().unwrap_or_default();
        let lasts = |place| story.sight_during(place, 0, last) == Sight::Visible;
        story.lasting = (0..story.items.len()).map(lasts).collect();
        for index in calls.iter().filter(|index| is_removal(&history.calls[**index])) {
            for place in story.taken(&history.calls[*index].request) {
                story.items[place].removals.push(change(history, *index, false));
            }
        }
        story.observations = calls.iter().filter_map(|index| story.observe(*index)).collect();
        Ok(story)
    }

    /// The most items that an aggregation reads.
    pub fn items_max(&self) -> u64 {
        self.history.items_max()
    }

    /// The places of the items between two moments.
    pub fn between(&self, min: Option<u64>, max: Option<u64>) -> Range<usize> {
        let start = min.map_or(0, |min| self.keys.partition_point(|key| key.timestamp < min));
        let end = max.map_or(self.keys.len(), |max| self.keys.partition_point(|key| key.timestamp <= max));
        start..end.max(start)
    }

    /// The items, by place, that a removal takes if they exist.
    pub fn taken(&self, removal: &Request) -> Vec<usize> {
        match removal {
            Request::RemoveValue { value, .. } => self.by_value.get(value).cloned().unwrap_or_default(),
            Request::RemoveItems { items, .. } => {
                let mut places: Vec<usize> = items.iter().filter_map(|item| self.key(item).ok()?.1).collect();
                places.sort_unstable();
                places.dedup();
                places
            }
            Request::RemoveBetween { min, max, .. } => self.between(*min, *max).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether a removal takes effect at one instant: a large one by time need not.
    pub fn is_at_once(&self, removal: &Request) -> bool {
        let bytes =
            |places: Vec<usize>| places.into_iter().map(|place| self.items[place].item.value.len()).sum::<usize>();
        !matches!(removal, Request::RemoveBetween { .. }) || bytes(self.taken(removal)) < BYTES_AT_ONCE
    }

    /// The key of an item of this list, and its place if it was ever sent.
    pub fn key(&self, item: &Item) -> Result<(Key, Option<usize>), String> {
        match self.places.get(item) {
            Some(place) => Ok((self.keys[*place].clone(), Some(*place))),
            None => {
                // The same item may be written differently.
                let key = self.value_type.key(item)?;
                let place = self.keys.binary_search(&key).ok();
                Ok((key, place))
            }
        }
    }

    /// The visibility of an item for a call.
    pub fn sight(&self, place: usize, call: &Call) -> Sight {
        // The answer to a call describes a moment of the call, with any omissions.
        if self.lasting[place] { Sight::Visible } else { self.sight_during(place, call.from, call.to) }
    }

    fn sight_during(&self, place: usize, from: Moment, to: Moment) -> Sight {
        let ItemStory { item, adds, .. } = &self.items[place];
        let version = &self.list.version;
        let (mut least, mut most) = (u64::MAX, 0);
        // Once its stored expiry has passed, a compaction may drop an item, and no step of the clock restores it.
        let mut dropped = false;
        for add in adds.iter().filter(|add| add.from <= to) {
            let stored = self.expiry.expiry(version, item.timestamp, add.from, add.latest);
            let late = match self.history.promises {
                Promises::Linearizable => 0,
                Promises::Quorum => ROW_EXPIRY_LATE.saturating_add(add.latest - add.from),
            };
            (least, most) = (least.min(stored.0), most.max(stored.1.saturating_add(late)));
            dropped |= self.history.wall(add.from, to).1 >= stored.0;
        }
        let sight = self.expiry.sight(version, item.timestamp, (least, most.max(least)), from, to);
        if dropped { sight.max(Sight::Unsure) } else { sight }
    }

    /// The required and the actual results of a call. `None` if it reports no items.
    fn observe(&self, index: usize) -> Option<Observation> {
        let Call { request, outcome, .. } = &self.history.calls[index];
        match (request, outcome) {
            (Request::Get { min, max, order, after, .. }, Outcome::Page { items, more }) => {
                let asked = self.asked(self.between(*min, *max), *order, after.as_ref());
                Some(self.page(index, asked, *order, items, *more))
            }
            (Request::Contains { min, max, values, .. }, Outcome::Contained(newest)) => {
                Some(self.search(index, &self.between(*min, *max), values, newest))
            }
            (Request::Aggregate { .. }, Outcome::Aggregated(reported)) => Some(self.aggregated(index, reported)),
            _ => None,
        }
    }

    /// The part behind a key of the range between bounds.
    fn asked(&self, between: Range<usize>, order: Order, after: Option<&Key>) -> Range<usize> {
        let Some(after) = after else { return between };
        match order {
            Order::Newest => {
                let end = between.end.min(self.keys.partition_point(|key| key < after));
                between.start..end.max(between.start)
            }
            Order::Oldest => {
                let start = between.start.max(self.keys.partition_point(|key| key <= after));
                start.min(between.end)..between.end
            }
        }
    }

    fn page(&self, call: usize, asked: Range<usize>, order: Order, items: &[Item], more: bool) -> Observation {
        let mut seen = vec![false; self.items.len()];
        let places: Vec<usize> = items.iter().filter_map(|item| self.key(item).ok()?.1).collect();
        places.iter().for_each(|place| seen[*place] = true);
        let (covered, behind) = match order {
            _ if !more => (asked, None),
            Order::Newest => {
                let first = places.iter().copied().min().unwrap_or(asked.end).max(asked.start);
                (first..asked.end, Some(asked.start..first))
            }
            Order::Oldest => {
                let end = places.iter().map(|place| place + 1).max().unwrap_or(asked.start).min(asked.end);
                (asked.start..end, Some(end..asked.end))
            }
        };
        Observation { call, covered: covered.collect(), seen, behind, some: Vec::new() }
    }

    /// For each value, no items newer than the found one exist.
    fn search(&self, call: usize, between: &Range<usize>, values: &[String], newest: &[Option<u64>]) -> Observation {
        let (mut seen, mut covered) = (vec![false; self.items.len()], Vec::new());
        for (value, newest) in values.iter().zip(newest) {
            let of_value = self.by_value.get(value).into_iter().flatten();
            let reported = of_value.filter(|place| between.contains(*place));
            let reported = reported.filter(|place| newest.is_none_or(|newest| self.keys[**place].timestamp >= newest));
            for place in reported {
                seen[*place] = Some(self.keys[*place].timestamp) == *newest;
                covered.push(*place);
            }
        }
        covered.sort_unstable();
        covered.dedup();
        Observation { call, covered, seen, behind: None, some: Vec::new() }
    }

    /// The values of a window on which an answer reports. One that is not among the most frequent values may have been
    /// there, too, if these are not all, or if the answer may lack items. One without a group is skipped.
    pub fn counted(&self, window: &Aggregated, items_read: u64) -> Vec<CountedValue<'_>> {
        let results = &window.results;
        let is_cut = window.is_cut(items_read, self.history.items_max());
        let reported: HashMap<&str, u64> =
            results.values.iter().map(|(value, count)| (value.as_str(), *count)).collect();
        let mut by_value: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for place in self.between(Some(window.min), Some(window.max)) {
            by_value.entry(&self.items[place].item.value).or_default().push(place);
        }
        let are_all = results.has_all_values() && !is_cut;
        let counted = by_value.into_iter().filter_map(|(value, places)| {
            let is_missing = || (are_all && window.counts(value)).then_some(0);
            let count = reported.get(value).copied().or_else(is_missing)?;
            Some(CountedValue { places, value, count, is_cut })
        });
        counted.collect()
    }

    /// For each value of a window, the number of its items.
    fn aggregated(&self, call: usize, reported: &Aggregates) -> Observation {
        let (mut seen, mut covered, mut some) = (vec![false; self.items.len()], Vec::new(), Vec::new());
        for counted in reported.windows.iter().flat_map(|window| self.counted(window, reported.items_read)) {
            match counted.is_clear() {
                Some(there) => {
                    counted.places.iter().for_each(|place| seen[*place] = there);
                    covered.extend(counted.places);
                }
                None if counted.is_cut => {}
                None => some.push((counted.places, counted.count)),
            }
        }
        covered.sort_unstable();
        covered.dedup();
        Observation { call, covered, seen, behind: None, some }
    }
}

/// Whether an add put an item into its list: `None` if certainly not, `Some(optional)` otherwise.
fn added(history: &History, expiry: &Expiry<'_>, list: &ListName, call: &Call, item: &Item) -> Option<bool> {
    let sight = || expiry.sight(&list.version, item.timestamp, (u64::MAX, u64::MAX), call.from, history.latest(call));
    match call.outcome {
        Outcome::Unknown { .. } => (sight() != Sight::Hidden).then_some(true),
        Outcome::Added { already_expired: 0, .. } => Some(false),
        Outcome::Added { added: 0, .. } => None,
        Outcome::Added { .. } => match sight() {
            Sight::Visible => Some(false),
            Sight::Unsure => Some(true),
            Sight::Hidden => None,
        },
        _ => None,
    }
}

/// Whether a call may have removed some items.
pub fn is_removal(call: &Call) -> bool {
    call.request.removes_some() && matches!(call.outcome, Outcome::Removed(_) | Outcome::Unknown { .. })
}

fn can_empty(call: &Call) -> bool {
    let kind = matches!(
        call.request,
        Request::RemoveAll { .. }
            | Request::DeleteFeature { .. }
            | Request::CreateFeature { .. }
            | Request::DeleteVersion { .. }
            | Request::CreateVersion { .. }
    );
    kind && (call.outcome == Outcome::Done || call.unknown())
}

/// All that empties a list at one instant.
fn clears(history: &History, emptying: &[usize], list: &ListName) -> Vec<Change> {
    let version = &list.version;
    let empties = |call: &Call| match &call.request {
        Request::RemoveAll { list: of } => of == list,
        Request::DeleteFeature { feature } => *feature == version.feature,
        // A new definition starts with empty lists.
        Request::CreateFeature { feature, .. } => *feature == version.feature && version.label.is_empty(),
        Request::DeleteVersion { version: of } | Request::CreateVersion { version: of, .. } => of == version,
        _ => false,
    };
    let ours = emptying.iter().filter(|index| empties(&history.calls[**index]));
    ours.map(|index| change(history, *index, false)).collect()
}
