//! Checks answers: a fast server with wrong answers is useless.
//!
//! Checks of a get's answer. It must be well formed, newest first without duplicates, and within the requested length.
//! Each item with a timestamp of the data set must equal the loaded item. A list without removals must be complete.
//! The newest items that this generator added must be in it if the add was acknowledged before the get was sent. The
//! last two checks hold only while no other client removes from these lists.

use liststore_contract::domain::Timestamp;

use super::data::{self, DataSet};
use super::operation::ADDED_SPACING_NANOS;
use super::protocol::Protocol;
use super::response::{Malformed, SeenItem};

/// Lists whose last add is remembered, for each thread.
const REMEMBERED: usize = 1 << 14;

/// An add that the server has acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcknowledgedAdd {
    pub list: u64,
    pub newest_nanos: u64,
    pub number: u64,
}

/// The last acknowledged adds of one thread: a table of fixed size, in which a later add of
/// another list may take an earlier one's place.
#[derive(Debug)]
pub struct RecentAdds {
    slots: Vec<Option<AcknowledgedAdd>>,
}

impl RecentAdds {
    pub fn new() -> Self {
        Self { slots: vec![None; REMEMBERED] }
    }

    fn slot(list: u64) -> usize {
        data::scramble(list) as usize % REMEMBERED
    }

    pub fn remember(&mut self, add: AcknowledgedAdd) {
        self.slots[Self::slot(add.list)] = Some(add);
    }

    pub fn last_of(&self, list: u64) -> Option<AcknowledgedAdd> {
        self.slots[Self::slot(list)].filter(|add| add.list == list)
    }
}

/// The rules for every answer of a run.
#[derive(Debug, Clone, Copy)]
pub struct Expectations {
    /// `None` if the lists do not hold a data set of this generator.
    pub data: Option<DataSet>,
    /// Items that every list has at least.
    pub items_min: u64,
    pub limit: u64,
    /// Items of an add.
    pub batch: u64,
    pub value_bytes: usize,
}

impl Expectations {
    /// Checks the answer of a get of `list` that was sent after `recent` had been acknowledged.
    pub fn check_get(
        &self,
        protocol: &Protocol,
        list: u64,
        recent: Option<AcknowledgedAdd>,
        body: &[u8],
    ) -> Result<(), Malformed> {
        let items = protocol.read_items(body)?;
        let wrong = |text: String| Err(Malformed(format!("list {list}: {text}")));
        if items.len() as u64 > self.limit {
            return wrong(format!("got {} items, requested {}", items.len(), self.limit));
        }
        if let Some(pair) = items.windows(2).find(|pair| !protocol.in_order(&pair[0], &pair[1])) {
            return wrong(format!(
                "wrong order: the item of {} precedes the item of {}",
                pair[0].timestamp, pair[1].timestamp
            ));
        }
        if (items.len() as u64) < self.items_min.min(self.limit) {
            return wrong(format!("got {} items, expected {}", items.len(), self.items_min.min(self.limit)));
        }
        if let Some(data) = &self.data
            && let Some(item) = items.iter().find(|item| !may_be_there(protocol, data, list, item))
        {
            let value = String::from_utf8_lossy(&item.value);
            return wrong(format!("unexpected value {value:?} at {}", item.timestamp));
        }
        if let Some(add) = recent
            && let Some(missing) = self.missing_of(protocol, add, &items)
        {
            return wrong(format!("the acknowledged item of {missing} is missing"));
        }
        Ok(())
    }

    /// Checks the answer of a get of several lists, page by page.
    pub fn check_gets(
        &self,
        protocol: &Protocol,
        lists: impl Iterator<Item = u64>,
        body: &[u8],
    ) -> Result<(), Malformed> {
        let (pages, lists) = (protocol.pages(body)?, lists.collect::<Vec<_>>());
        if pages.len() != lists.len() {
            return Err(Malformed(format!("got {} lists, requested {}", pages.len(), lists.len())));
        }
        lists.into_iter().zip(pages).try_for_each(|(list, page)| self.check_get(protocol, list, None, page))
    }

    pub fn check_add(&self, protocol: &Protocol, body: &[u8]) -> Result<(), Malformed> {
        match protocol.read_added(body)? {
            added if added == self.batch => Ok(()),
            added => Err(Malformed(format!("an add of {} items returned added={added}", self.batch))),
        }
    }

    /// The timestamp of an item of the add that should be among the items, and is not.
    fn missing_of(&self, protocol: &Protocol, add: AcknowledgedAdd, items: &[SeenItem<'_>]) -> Option<Timestamp> {
        let ends_early = items.len() as u64 == self.limit;
        let mut value = Vec::with_capacity(self.value_bytes);
        (0..self.batch).find_map(|i| {
            let nanos = protocol.kept_nanos(add.newest_nanos - i * ADDED_SPACING_NANOS);
            let timestamp = Timestamp::saturating_from_nanos(u128::from(nanos));
            // Newer items, or items of the same moment, may have pushed it off the page.
            if ends_early && items.last().is_some_and(|last| last.timestamp >= timestamp) {
                return None;
            }
            value.clear();
            data::write_added_value(add.number + i, self.value_bytes, &mut value);
            let there = items.iter().any(|item| item.timestamp == timestamp && *item.value == *value);
            (!there).then_some(timestamp)
        })
    }
}

/// Whether the item is a loaded one, or possibly a later added one.
fn may_be_there(protocol: &Protocol, data: &DataSet, list: u64, item: &SeenItem<'_>) -> bool {
    if item.value.len() != data.value_bytes {
        return false;
    }
    if !data::is_loaded_value(&item.value) {
        return true;
    }
    // If timestamps are stored coarsely, an item may seem to be in its neighbour's slot.
    let slot = item.timestamp.as_nanos().saturating_sub(data.oldest_nanos) / data.spacing_nanos;
    (slot.saturating_sub(1)..data.length.min(slot + 2)).any(|index| {
        let is_its_time = protocol.kept_nanos(data.timestamp(list, index)) == item.timestamp.as_nanos();
        let mut value = Vec::new();
        if is_its_time {
            data.write_value(list, index, &mut value);
        }
        is_its_time && *item.value == *value
    })
}

#[cfg(test)]
mod tests {
    use super::super::endpoint::Endpoint;
    use super::super::http::Http;
    use super::super::resp::{self, Resp};
    use super::*;

    const DATA: DataSet = DataSet {
        lists: 10,
        length: 20,
        value_bytes: 12,
        oldest_nanos: 1_700_000_000_000_000_000,
        spacing_nanos: 1_000_000_000,
    };
    const EXPECTATIONS: Expectations =
        Expectations { data: Some(DATA), items_min: 20, limit: 10, batch: 3, value_bytes: 12 };
    const ADD: AcknowledgedAdd = AcknowledgedAdd { list: 5, newest_nanos: 1_800_000_000_000_000_000, number: 77 };

    fn http() -> Protocol {
        let endpoint = Endpoint { host: "h".into(), lists_path: "/".into(), ..Endpoint::default() };
        Protocol::Http(Http::new(&endpoint, DATA, 3, 10))
    }

    type Items = Vec<(u64, String)>;

    fn text(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn loaded(count: u64) -> Items {
        let item = |i| (DATA.timestamp(5, i), text(|out| DATA.write_value(5, i, out)));
        (0..DATA.length).rev().take(count as usize).map(item).collect()
    }

    fn added() -> Items {
        let value = |i| text(|out| data::write_added_value(ADD.number + i, 12, out));
        (0..3).map(|i| (ADD.newest_nanos - i * ADDED_SPACING_NANOS, value(i))).collect()
    }

    fn json(items: &Items) -> Vec<u8> {
        let items: Vec<_> = items
            .iter()
            .map(|(nanos, value)| {
                serde_json::json!({"timestamp": Timestamp::from_nanos(*nanos).unwrap().to_string(), "value": value})
            })
            .collect();
        serde_json::json!({ "items": items }).to_string().into_bytes()
    }

    fn complaint(recent: Option<AcknowledgedAdd>, items: &Items) -> String {
        EXPECTATIONS.check_get(&http(), 5, recent, &json(items)).err().map(|e| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn right_answers_pass() {
        assert_eq!(complaint(None, &loaded(10)), "");
        let both: Items = added().into_iter().chain(loaded(7)).collect();
        assert_eq!(complaint(Some(ADD), &both), "");
        // Other clients have added so much since then that our items are off the page.
        let newer = |i: u64| (ADD.newest_nanos + 100 - i, text(|out| data::write_added_value(i, 12, out)));
        assert_eq!(complaint(Some(ADD), &(0..10).map(newer).collect()), "");
    }

    #[test]
    fn wrong_answers_are_caught() {
        let mut swapped = loaded(10);
        swapped.swap(3, 4);
        assert!(complaint(None, &swapped).contains("wrong order"));
        let mut twice = loaded(9);
        twice.insert(3, twice[3].clone());
        assert!(complaint(None, &twice).contains("wrong order"));
        assert!(complaint(None, &loaded(9)).contains("got 9 items, expected 10"));
        assert!(complaint(None, &loaded(11)).contains("got 11 items, requested 10"));
        let mut foreign = loaded(10);
        foreign[2].0 += 1;
        assert!(complaint(None, &foreign).contains("unexpected value"));
        let mut foreign = loaded(10);
        foreign[2].1 = foreign[3].1.clone();
        assert!(complaint(None, &foreign).contains("unexpected value"));
        let mut short = loaded(10);
        short[2].1 = "A".into();
        assert!(complaint(None, &short).contains("unexpected value"));
    }

    #[test]
    fn an_acknowledged_item_that_is_missing_is_caught() {
        let mut both: Items = added().into_iter().chain(loaded(8)).collect();
        both.remove(1);
        assert!(complaint(Some(ADD), &both).contains("the acknowledged item of"));
        assert!(complaint(Some(ADD), &loaded(10)).contains("is missing"));
    }

    #[test]
    fn ties_go_by_item_key() {
        let mut tied: Items =
            (0..2).map(|i| (ADD.newest_nanos, text(|out| data::write_added_value(i, 12, out)))).collect();
        tied.sort_by_key(|(_, value)| std::cmp::Reverse(data_key(value)));
        let answer = |tied: &Items| tied.iter().cloned().chain(loaded(8)).collect();
        assert_eq!(complaint(None, &answer(&tied)), "");
        tied.reverse();
        assert!(complaint(None, &answer(&tied)).contains("wrong order"));
    }

    fn data_key(value: &str) -> liststore_contract::domain::ValueDigest {
        liststore_contract::domain::ValueDigest::of(value.as_bytes())
    }

    #[test]
    fn an_add_must_be_acknowledged_completely() {
        assert_eq!(EXPECTATIONS.check_add(&http(), b"{\"added\":3,\"already_expired\":0}"), Ok(()));
        assert!(EXPECTATIONS.check_add(&http(), b"{\"added\":2,\"already_expired\":0}").is_err());
        assert!(EXPECTATIONS.check_add(&http(), b"{\"added\":2,\"already_expired\":1}").is_err());
    }

    #[test]
    fn times_of_redis_are_compared_in_microseconds() {
        let protocol = Protocol::Resp(Resp::new("x", DATA, 3, 10));
        let reply = |items: &Items| {
            let mut out = format!("*{}\r\n", items.len() * 2).into_bytes();
            for (nanos, value) in items {
                resp::bulk(value.as_bytes(), &mut out);
                resp::bulk((nanos / 1_000).to_string().as_bytes(), &mut out);
            }
            out
        };
        let mut both: Items = added().into_iter().chain(loaded(7)).collect();
        assert_eq!(EXPECTATIONS.check_get(&protocol, 5, Some(ADD), &reply(&both)), Ok(()));
        both[4].0 += 1_000;
        assert!(EXPECTATIONS.check_get(&protocol, 5, Some(ADD), &reply(&both)).is_err());
    }

    #[test]
    fn recent_adds_are_bounded_and_exact() {
        let mut recent = RecentAdds::new();
        for list in 0..3 * REMEMBERED as u64 {
            recent.remember(AcknowledgedAdd { list, newest_nanos: list, number: 1 });
            assert_eq!(recent.last_of(list).map(|add| add.newest_nanos), Some(list));
        }
        assert_eq!(recent.slots.len(), REMEMBERED);
        let wrong = (0..3 * REMEMBERED as u64).filter_map(|list| recent.last_of(list).map(|add| (list, add.list)));
        assert!(wrong.clone().count() > 1_000 && wrong.clone().all(|(asked, found)| asked == found));
    }
}
