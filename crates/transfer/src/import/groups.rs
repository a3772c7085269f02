//! Items in transit, by list: few large adds cost the server much less than many small ones.
//!
//! Files are ordered by time, so that the rows of one list are far apart. Many rows wait, and when there are too
//! many, the largest groups are sent first, while small groups wait for more. The number of held rows determines the
//! duration of an import of many short lists: an add costs about the same with one item or five.

use std::collections::{HashMap, VecDeque};

use liststore_contract::operations::add_items::AddItemsInput;
use tokio::time::Instant;

use super::row::{RawRow, Row};
use crate::domain::EntityId;

pub const GROUP_ITEMS_MAX: usize = AddItemsInput::ITEMS_MAX;
/// Well below the server's default body limit.
const GROUP_BODY_BYTES_MAX: usize = 1 << 20;
const ROWS_MAX: usize = 1 << 20;
const BYTES_MAX: usize = 384 << 20;
/// The approximate size of a group and of an item in addition to their JSON.
const GROUP_BYTES: usize = 512;
const ITEM_BYTES: usize = size_of::<RowOrigin>() + size_of::<u32>();

const BODY_HEAD: &[u8] = b"{\"items\":[";
const BODY_TAIL: &[u8] = b"]}";

/// The place of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowOrigin {
    /// By its place on the command line.
    pub source: u32,
    pub line: u64,
}

/// Items of one list, at most as many as one add may have.
#[derive(Debug)]
pub struct Group {
    pub entity_id: EntityId,
    /// When its first row was added.
    since: Instant,
    /// [`BODY_HEAD`] and the items, separated by commas.
    body: Vec<u8>,
    /// Where each item ends in the body.
    ends: Vec<u32>,
    origins: Vec<RowOrigin>,
    /// The original rows, if they are retained.
    raws: Vec<RawRow>,
}

/// One item of a group.
#[derive(Debug, Clone, Copy)]
pub struct GroupItem<'a> {
    pub json: &'a [u8],
    pub origin: RowOrigin,
    pub raw: Option<&'a RawRow>,
}

impl Group {
    fn new(entity_id: EntityId) -> Self {
        Self {
            entity_id,
            since: Instant::now(),
            body: BODY_HEAD.to_vec(),
            ends: Vec::new(),
            origins: Vec::new(),
            raws: Vec::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The body of the request that adds the items.
    pub fn body(&self) -> Vec<u8> {
        [self.body.as_slice(), BODY_TAIL].concat()
    }

    fn fits(&self, item_bytes: usize) -> bool {
        self.ends.len() < GROUP_ITEMS_MAX && self.body.len() + item_bytes <= GROUP_BODY_BYTES_MAX
    }

    /// Appends an item; answers with the bytes that the body has grown by.
    fn push_row(&mut self, row: &Row) -> usize {
        let before = self.body.len();
        self.separate();
        self.body.extend_from_slice(b"{\"timestamp\":");
        self.body.extend_from_slice(row.timestamp.as_nanos().to_string().as_bytes());
        self.body.extend_from_slice(b",\"value\":");
        self.body.extend_from_slice(&row.value);
        if !row.key.is_empty() {
            self.body.extend_from_slice(b",\"key\":");
            self.body.extend_from_slice(&row.key);
        }
        self.body.push(b'}');
        self.ends.push(self.body.len() as u32);
        self.body.len() - before
    }

    fn push_item(&mut self, item: GroupItem<'_>) {
        self.separate();
        self.body.extend_from_slice(item.json);
        self.ends.push(self.body.len() as u32);
        self.origins.push(item.origin);
        self.raws.extend(item.raw.cloned());
    }

    fn separate(&mut self) {
        if !self.ends.is_empty() {
            self.body.push(b',');
        }
    }

    pub fn items(&self) -> impl Iterator<Item = GroupItem<'_>> {
        (0..self.len()).map(|index| {
            let from = if index == 0 { BODY_HEAD.len() } else { self.ends[index - 1] as usize + 1 };
            GroupItem {
                json: &self.body[from..self.ends[index] as usize],
                origin: self.origins[index],
                raw: self.raws.get(index),
            }
        })
    }

    /// Splits the group's items into the kept ones and the others.
    pub fn partition(&self, mut keep: impl FnMut(usize) -> bool) -> (Self, Self) {
        let (mut kept, mut others) = (Self::new(self.entity_id.clone()), Self::new(self.entity_id.clone()));
        for (index, item) in self.items().enumerate() {
            if keep(index) { kept.push_item(item) } else { others.push_item(item) }
        }
        (kept, others)
    }
}

/// All items that wait, bounded in number and in bytes.
#[derive(Debug, Default)]
pub struct Groups {
    groups: HashMap<Box<str>, Group>,
    /// The lists in the order in which their groups began, if groups are taken by age. Groups that were already taken
    /// are skipped.
    begun: Option<VecDeque<(Instant, Box<str>)>>,
    rows: usize,
    bytes: usize,
}

impl Groups {
    /// Groups with a limit of age.
    pub fn by_age() -> Self {
        Self { begun: Some(VecDeque::new()), ..Self::default() }
    }

    /// Adds a row to the items of its list. Returns the group if the row does not fit into it, or the reason why the
    /// row is bad.
    pub fn push(&mut self, row: &Row, origin: RowOrigin, raw: Option<RawRow>) -> Result<Option<Group>, String> {
        let raw_bytes = raw.as_ref().map_or(0, RawRow::bytes);
        let group = match self.groups.get_mut(row.entity_id.as_str()) {
            Some(group) => group,
            None => {
                let group = Group::new(EntityId::new(&row.entity_id).map_err(|e| e.to_string())?);
                self.bytes += GROUP_BYTES;
                if let Some(begun) = &mut self.begun {
                    begun.push_back((group.since, row.entity_id.as_str().into()));
                }
                self.groups.entry(row.entity_id.as_str().into()).or_insert(group)
            }
        };
        let full = if group.len() == 0 || group.fits(row.value.len() + row.key.len() + 64) {
            None
        } else {
            let next = Group::new(group.entity_id.clone());
            if let Some(begun) = &mut self.begun {
                begun.push_back((next.since, row.entity_id.as_str().into()));
            }
            Some(std::mem::replace(group, next))
        };
        let grown = group.push_row(row);
        group.origins.push(origin);
        group.raws.extend(raw);
        self.rows += 1;
        self.bytes += grown + ITEM_BYTES + raw_bytes;
        if let Some(full) = &full {
            self.bytes += GROUP_BYTES;
            self.forget(full);
        }
        Ok(full)
    }

    fn forget(&mut self, group: &Group) {
        let raw_bytes: usize = group.raws.iter().map(RawRow::bytes).sum();
        self.rows -= group.len();
        self.bytes -= group.body.len() - BODY_HEAD.len() + group.len() * ITEM_BYTES + raw_bytes + GROUP_BYTES;
    }

    pub fn is_full(&self) -> bool {
        self.rows >= ROWS_MAX || self.bytes >= BYTES_MAX
    }

    /// Takes the largest groups, until half of the room is free.
    pub fn take_largest(&mut self) -> Vec<Group> {
        let mut sizes: Vec<(usize, Box<str>)> =
            self.groups.iter().map(|(entity_id, group)| (group.body.len(), entity_id.clone())).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let mut taken = Vec::new();
        for (_, entity_id) in sizes {
            if self.rows <= ROWS_MAX / 2 && self.bytes <= BYTES_MAX / 2 {
                break;
            }
            if let Some(group) = self.groups.remove(&entity_id) {
                self.forget(&group);
                taken.push(group);
            }
        }
        taken
    }

    /// Takes the groups that began before this moment, if groups have a limit of age.
    pub fn take_older(&mut self, than: Instant) -> Vec<Group> {
        let mut taken = Vec::new();
        while let Some((since, entity_id)) =
            self.begun.as_mut().and_then(|begun| begun.pop_front_if(|(since, _)| *since < than))
        {
            if self.groups.get(&entity_id).is_some_and(|group| group.since == since)
                && let Some(group) = self.groups.remove(&entity_id)
            {
                self.forget(&group);
                taken.push(group);
            }
        }
        taken
    }

    pub fn take_all(&mut self) -> impl Iterator<Item = Group> {
        let fresh = Self { begun: self.begun.as_ref().map(|_| VecDeque::new()), ..Self::default() };
        let all = std::mem::replace(self, fresh);
        all.groups.into_values().filter(|group| group.len() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Timestamp;

    fn row(entity_id: &str, value: &str) -> Row {
        let timestamp = Timestamp::from_nanos(7).unwrap();
        Row { entity_id: entity_id.into(), timestamp, value: value.into(), ..Row::default() }
    }

    fn origin(line: u64) -> RowOrigin {
        RowOrigin { source: 0, line }
    }

    fn group(values: &[&str]) -> Group {
        let mut groups = Groups::default();
        for (line, value) in values.iter().enumerate() {
            groups
                .push(&row("u", value), origin(line as u64), Some(RawRow::Ndjson(value.as_bytes().to_vec())))
                .unwrap();
        }
        groups.take_all().next().unwrap()
    }

    fn body(group: &Group) -> String {
        String::from_utf8(group.body()).unwrap()
    }

    #[test]
    fn a_group_is_the_body_of_an_add() {
        let group = group(&["1", "\"x\""]);
        assert_eq!(body(&group), r#"{"items":[{"timestamp":7,"value":1},{"timestamp":7,"value":"x"}]}"#);
        let items: Vec<_> = group.items().map(|item| (item.json, item.origin.line, item.raw.cloned())).collect();
        assert_eq!(items[1].0, br#"{"timestamp":7,"value":"x"}"#);
        assert_eq!((items[1].1, items[1].2.clone()), (1, Some(RawRow::Ndjson(b"\"x\"".to_vec()))));
    }

    #[test]
    fn items_can_be_removed_from_a_group() {
        let (kept, others) = group(&["1", "2", "3"]).partition(|index| index != 1);
        assert_eq!(body(&kept), r#"{"items":[{"timestamp":7,"value":1},{"timestamp":7,"value":3}]}"#);
        assert_eq!(body(&others), r#"{"items":[{"timestamp":7,"value":2}]}"#);
        assert_eq!((kept.origins, others.origins), (vec![origin(0), origin(2)], vec![origin(1)]));
        assert_eq!((kept.raws.len(), others.raws.len()), (2, 1));
    }

    #[test]
    fn a_group_is_sent_before_it_is_too_large() {
        let mut groups = Groups::default();
        for line in 0..GROUP_ITEMS_MAX as u64 {
            assert!(groups.push(&row("u", "1"), origin(line), None).unwrap().is_none());
        }
        assert_eq!(groups.push(&row("u", "1"), origin(0), None).unwrap().unwrap().len(), GROUP_ITEMS_MAX);
        let large = "x".repeat(300_000);
        let mut handed_on = 0;
        for line in 0..10 {
            if let Some(group) = groups.push(&row("v", &large), origin(line), None).unwrap() {
                assert!(group.body().len() <= GROUP_BODY_BYTES_MAX);
                handed_on += group.len();
            }
        }
        assert_eq!(handed_on + groups.take_all().map(|group| group.len()).sum::<usize>(), 11);
    }

    #[test]
    fn waiting_items_are_bounded_and_none_is_lost() {
        let mut groups = Groups::default();
        let mut taken = 0;
        let rows = 2 * ROWS_MAX + 300_000;
        for line in 0..rows as u64 {
            let row = row(&format!("u{}", line % 977 * (line % 3)), "\"value\"");
            taken += groups.push(&row, origin(line), None).unwrap().map_or(0, |group| group.len());
            if groups.is_full() {
                taken += groups.take_largest().iter().map(Group::len).sum::<usize>();
                assert!(groups.rows <= ROWS_MAX / 2);
            }
        }
        let rest: usize = groups.groups.values().map(Group::len).sum();
        assert_eq!((taken + rest, groups.rows), (rows, rest));
        let sum: usize = groups.groups.values().map(|g| g.body.len() - BODY_HEAD.len() + g.len() * ITEM_BYTES).sum();
        assert_eq!(groups.bytes, sum + groups.groups.len() * GROUP_BYTES);
    }

    #[test]
    fn large_rows_are_bounded_by_their_bytes() {
        let mut groups = Groups::default();
        let raw = RawRow::Ndjson(vec![b'x'; 100_000]);
        let mut pushed = 0;
        while !groups.is_full() {
            groups.push(&row(&format!("u{pushed}"), "1"), origin(0), Some(raw.clone())).unwrap();
            pushed += 1;
        }
        assert!((3_900..4_050).contains(&pushed), "{pushed}");
        groups.take_largest();
        assert!(groups.bytes <= BYTES_MAX / 2);
    }

    #[test]
    fn an_invalid_entity_id_makes_a_bad_row() {
        for entity_id in ["", "..", "a\0b", &"x".repeat(513)] {
            assert!(Groups::default().push(&row(entity_id, "1"), origin(1), None).is_err(), "{entity_id:?}");
        }
    }
}
