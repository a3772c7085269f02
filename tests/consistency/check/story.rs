//! A history told list by list: for each item, what can have added and removed it, and for each
//! call that read, what it saw.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::expiry::{Expiry, Sight};
use crate::history::{
    Call, History, Item, Key, ListName, Moment, NANOS_PER_SEC, Outcome, Promises, Request, ValueType,
};

/// How much longer than it should a row lives on CQL, at most: its TTL is in whole seconds, rounded
/// up, with one more for a coordinator that counts from its own second, and the second in which it
/// ends is counted too. It counts from when the row is written, some time after the add began.
const ROW_EXPIRY_LATE: Moment = 3 * NANOS_PER_SEC;

/// Something that may have put an item into its list, or taken it out.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    pub call: usize,
    pub from: Moment,
    pub latest: Moment,
    /// Its answer does not say for certain that it changed this item.
    pub optional: bool,
}

pub struct ItemStory {
    pub item: Item,
    pub adds: Vec<Change>,
    pub removals: Vec<Change>,
}

/// A page, as the list's items see it.
pub struct Look {
    pub call: usize,
    /// The items of the story, by place, that the page had to tell of.
    pub covered: Range<usize>,
    /// For each item of the story, by place, whether it was in it.
    pub seen: Vec<bool>,
    /// The items below the page, if it had a token for more.
    pub below: Option<Range<usize>>,
}

pub struct Story<'a> {
    pub list: ListName,
    pub value_type: ValueType,
    /// In the order of the list, ascending.
    pub items: Vec<ItemStory>,
    pub keys: Vec<Key>,
    /// Calls on this list, by place in the history.
    pub calls: Vec<usize>,
    /// What empties the list: remove all, and what deletes or creates its version.
    pub clears: Vec<Change>,
    /// The places of the items that have a value.
    pub by_value: HashMap<String, Vec<usize>>,
    /// The pages that were answered.
    pub looks: Vec<Look>,
    places: HashMap<&'a Item, usize>,
    /// For each item, whether every call sees it if it is there.
    lasting: Vec<bool>,
    expiry: &'a Expiry<'a>,
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
            if let Some(list) = call.request.list() {
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
        for index in calls {
            let call = &history.calls[*index];
            let Request::RemoveValue { value, .. } = &call.request else { continue };
            if matches!(call.outcome, Outcome::Removed(_) | Outcome::Unknown { .. }) {
                for place in by_value.get(value).into_iter().flatten() {
                    items[*place].removals.push(change(history, *index, false));
                }
            }
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
            looks: Vec::new(),
            places,
            lasting: Vec::new(),
            expiry,
            history,
        };
        let last = history.calls.iter().map(|call| call.to).max().unwrap_or_default();
        let lasts = |place| story.sight_during(place, 0, last) == Sight::Visible;
        story.lasting = (0..story.items.len()).map(lasts).collect();
        story.looks = calls.iter().filter_map(|index| story.look(*index)).collect();
        Ok(story)
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

    /// How an item stands to a call.
    pub fn sight(&self, place: usize, call: &Call) -> Sight {
        // The answer to a call comes from a moment when it was open, whatever it left undone.
        if self.lasting[place] { Sight::Visible } else { self.sight_during(place, call.from, call.to) }
    }

    fn sight_during(&self, place: usize, from: Moment, to: Moment) -> Sight {
        let ItemStory { item, adds, .. } = &self.items[place];
        let version = &self.list.version;
        let (mut least, mut most) = (u64::MAX, 0);
        // Once its stored expiry has passed, a merge may drop an item, and no step of the clock brings
        // it back.
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

    /// What a get had to tell of, and did. `None` if it has no page.
    fn look(&self, index: usize) -> Option<Look> {
        let Call { request: Request::Get { min, max, after, .. }, outcome: Outcome::Page { items, more }, .. } =
            &self.history.calls[index]
        else {
            return None;
        };
        let from_min = min.map_or(0, |min| self.keys.partition_point(|key| key.timestamp < min));
        let mut end = max.map_or(self.keys.len(), |max| self.keys.partition_point(|key| key.timestamp <= max));
        if let Some(after) = after {
            end = end.min(self.keys.partition_point(|key| key < after));
        }
        let mut seen = vec![false; self.items.len()];
        let mut first = end;
        for place in items.iter().filter_map(|item| self.key(item).ok()?.1) {
            seen[place] = true;
            first = first.min(place);
        }
        let start = if *more { first } else { from_min };
        let below = more.then(|| from_min..start.max(from_min));
        Some(Look { call: index, covered: start..end.max(start), seen, below })
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
        // What is created starts empty.
        Request::CreateFeature { feature, .. } => *feature == version.feature && version.label.is_empty(),
        Request::DeleteVersion { version: of } | Request::CreateVersion { version: of, .. } => of == version,
        _ => false,
    };
    let ours = emptying.iter().filter(|index| empties(&history.calls[**index]));
    ours.map(|index| change(history, *index, false)).collect()
}
