//! Heads while lists change.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::super::head::HeadReader;
use super::super::member_index::IndexBuilder;
use super::*;
use crate::collect::page::Collect;
use crate::collect::turn::Turn;
use crate::options::ListHash;
use crate::row::RowBuilder;
use crate::row::merge::{MemorySource, Merge, Source};
use liststore_contract::domain::{Identity, Keep, Timestamp, Ttl};

const HASH: ListHash = ListHash::Of(|bytes| bytes.len() as u64);

fn row(times: &[u64]) -> Bytes {
    let mut builder = RowBuilder::default();
    times.iter().for_each(|time| builder.push(*time, u64::MAX, false, b"value"));
    builder.finish()
}

fn head(times: &[u64]) -> Head {
    let source: Box<dyn Source> = Box::new(MemorySource::new(row(times)).unwrap());
    let mut reader = HeadReader::new(Merge::new(vec![source]), ITEMS_MIN);
    reader.turn(&mut Turn::new()).unwrap().unwrap()
}

/// The timestamps that a get sees, if the list's head is cached.
fn seen_times(heads: &Heads, list: &ListId) -> Option<Vec<u64>> {
    let op = OpContext::new(Timestamp::MIN, Ttl::MAX, Instant::now() + Duration::from_secs(9));
    let head = heads.cache.peek(list)?;
    let range = Range {
        min_timestamp: Timestamp::MIN,
        max_timestamp: Timestamp::MAX,
        after: None,
        limit: 10,
        value_bytes_max: usize::MAX,
        order: Order::Newest,
    };
    Some(head.page(&op, &range)?.items.iter().map(|item| item.timestamp.as_nanos()).collect())
}

/// Otherwise an acknowledged add would be missing from all gets until the list changes again.
#[test]
fn a_read_from_before_a_change_does_not_become_the_head() {
    let (heads, list) = (Heads::new(1 << 20), ListId::from_bytes(b"a", HASH));
    let (before, ()) = heads.between_changes(&list, || ());
    let mut applied = false;
    heads.change(&list, &Change::Row(row(&[20])), || applied = true);
    assert!(applied);
    heads.fill(&list, before, head(&[10]));
    assert_eq!(seen_times(&heads, &list), None);
    heads.fill(&list, heads.between_changes(&list, || ()).0, head(&[20, 10]));
    assert_eq!(seen_times(&heads, &list), Some(vec![20, 10]));
    heads.change(&list, &Change::Row(row(&[30])), || {});
    assert_eq!(seen_times(&heads, &list), Some(vec![30, 20, 10]));
    heads.change(&list, &Change::Clear, || {});
    assert_eq!(seen_times(&heads, &list), Some(vec![]));
    heads.change(&list, &Change::Row(row(&[40])), || {});
    heads.change(&list, &Change::Replace(row(&[35])), || {});
    assert_eq!(seen_times(&heads, &list), Some(vec![35]));
}

/// Otherwise a reader of heads could see one list changed, and another one unchanged.
#[test]
fn changes_of_several_lists_appear_in_heads_at_one_moment() {
    let heads = Heads::new(1 << 20);
    let names: [&[u8]; 3] = [b"a", b"b", b"long"];
    let lists = names.map(|name| ListId::from_bytes(name, HASH));
    lists.iter().for_each(|list| heads.fill(list, heads.between_changes(list, || ()).0, head(&[10])));
    let change = |list: &ListId| ListChange { list: list.clone(), change: Change::Row(row(&[20])), oldest: 20 };
    let seen = || lists.each_ref().map(|list| seen_times(&heads, list));
    let state = || lists.each_ref().map(|list| heads.state(list.hash()));
    let before = state();
    // The first two share a hash, and thus a count.
    heads.change_together(&lists.each_ref().map(change), || {
        assert_eq!(seen(), [None, None, None], "who wants one waits behind it");
        assert_eq!(state(), [None, None, None]);
    });
    assert_eq!(seen(), [Some(vec![20, 10]), Some(vec![20, 10]), Some(vec![20, 10])]);
    assert!(state().iter().zip(before).all(|(now, before)| now.is_some() && *now != before));
    // One head alone is replaced directly, as for a single list.
    heads.forget_removed(&lists[0], |_, _| true);
    heads.forget_removed(&lists[1], |_, _| true);
    heads.change_together(&lists.each_ref().map(change), || assert_eq!(seen()[2], Some(vec![20, 10])));
    assert_eq!(seen(), [None, None, Some(vec![20, 10])]);
}

/// Otherwise a read would show an item that an earlier one omitted.
#[test]
fn a_list_has_no_head_during_a_removal_behind_it() {
    let (heads, list) = (Heads::new(1 << 20), ListId::from_bytes(b"a", HASH));
    let state = || heads.between_changes(&list, || ()).0;
    let before = state();
    heads.fill(&list, before, head(&[20, 10]));
    heads.without(std::slice::from_ref(&list), || {
        assert_ne!(state(), before, "kept pages are of another state");
        assert_eq!(seen_times(&heads, &list), None);
        heads.fill(&list, state(), head(&[20, 10]));
        assert_eq!(seen_times(&heads, &list), None);
    });
    heads.fill(&list, before, head(&[20, 10]));
    assert_eq!(seen_times(&heads, &list), None);
    heads.fill(&list, state(), head(&[20]));
    assert_eq!(seen_times(&heads, &list), Some(vec![20]));
}

/// Otherwise a reader could see a change behind the head before the head shows it.
#[test]
fn no_change_begins_during_a_read() {
    let (heads, list) = (Heads::new(1 << 20), ListId::from_bytes(b"a", HASH));
    let changed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (_, changing) = heads.between_changes(&list, || {
            let change = || heads.change(&list, &Change::Clear, || changed.store(true, Ordering::SeqCst));
            let changing = scope.spawn(change);
            // Long enough for an unblocked thread.
            std::thread::park_timeout(Duration::from_millis(200));
            assert!(!changed.load(Ordering::SeqCst));
            changing
        });
        changing.join().unwrap();
    });
    assert!(changed.into_inner());
}

#[test]
fn tables_of_members_and_heads_share_one_bound() {
    const BYTES: u64 = 256 << 10;
    let heads = Heads::new(BYTES);
    let lists = (0..2_000).map(|n| ListId::from_bytes(format!("list-{n}").as_bytes(), ListHash::Token));
    let lists: Vec<_> = lists.collect();
    let fill = || {
        lists.iter().for_each(|list| heads.fill(list, heads.between_changes(list, || ()).0, head(&[3, 2, 1])));
    };
    fill();
    let before = heads.cache.weight();
    assert!(before > BYTES / 2);
    for set in &lists[..50] {
        let worth = heads.members_due(set, 1 << 20).unwrap();
        let mut builder = IndexBuilder::new(Identity::Value(Keep::Newest), worth);
        let long = (0..40).map(|n| (n, format!("{n}{}", "x".repeat(60))));
        let mut items = RowBuilder::default();
        long.rev().for_each(|(time, value)| items.push(time, 9, false, value.as_bytes()));
        page::collect_row(items.finish(), &mut builder).unwrap();
        heads.keep_members(set, heads.between_changes(set, || ()).0, builder.finish().unwrap());
        assert!(heads.weight() <= BYTES);
    }
    assert!(heads.members.weight() > BYTES / 8 && heads.cache.weight() < before);
}
