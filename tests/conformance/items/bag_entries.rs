//! Entries, by which bags are found: they change with their bag.

use bytes::Bytes;
use liststore::domain::{NewItem, Timestamp};
use liststore::items::{BagAfter, BagEntries, BagSwap, EntryChange, Swapped};

use super::Backend;
use super::bags::{Bag, place, some};
use super::probe::SECOND;

pub async fn entries_are_added_and_removed_with_their_bag(backend: &dyn Backend) {
    let bag = Bag::open(backend).await;
    let change = |values: &str, removed: &[(u64, &str)], added: &[(u64, &str)]| EntryChange {
        list: bag.entries(values),
        removed: removed.iter().map(|(at, value)| (place(*at), value.to_string().into())).collect(),
        added: added.iter().map(|(at, value)| bag.entry(*at, value)).collect(),
    };
    let last = Timestamp::MAX.as_nanos();
    let first = vec![change("paris", &[], &[(0, "u-1"), (last, "u-2")]), change("rome", &[], &[(7, "u-1")])];
    assert_eq!(bag.swap(None, Some((-9, "{}")), first).await, Swapped::Done);
    // Places are not moments: places of 1970 are visible, too.
    let shown = |entries: &[(u64, &str)]| -> Vec<_> {
        entries.iter().map(|(at, value)| (place(*at), Bytes::from(value.to_string()))).collect()
    };
    assert_eq!(bag.entries_now("paris").await, shown(&[(last, "u-2"), (0, "u-1")]));
    assert_eq!(bag.entries_now("rome").await, shown(&[(7, "u-1")]));
    // It moves, in one list and to another; a missing entry is ignored.
    let moved =
        vec![change("paris", &[(0, "u-1"), (3, "u-1")], &[(9, "u-1")]), change("rome", &[(7, "u-1"), (8, "u-9")], &[])];
    assert_eq!(bag.swap(Some(-9), Some((-8, "{}")), moved).await, Swapped::Done);
    assert_eq!(bag.entries_now("paris").await, shown(&[(last, "u-2"), (9, "u-1")]));
    assert_eq!(bag.entries_now("rome").await, []);
    let gone = vec![change("paris", &[(9, "u-1"), (last, "u-2")], &[])];
    assert_eq!(bag.swap(Some(-8), None, gone).await, Swapped::Done);
    assert_eq!((bag.now().await, bag.entries_now("paris").await), (None, Vec::new()));
    // Entries may change without their bag: this repairs errors.
    bag.put(None, -7, "{}").await;
    let op = bag.probe.op();
    let repaired = |before| {
        let entries = vec![change("oslo", &[], &[(1, "u-1")])];
        BagSwap { before: Some(bag.probe.at(before)), after: BagAfter::Same, entries, row: None, entered_in: None }
    };
    assert_eq!(bag.swap_at(&op, repaired(-6)).await, Swapped::Lost);
    assert_eq!(bag.entries_now("oslo").await, []);
    assert_eq!(bag.swap_at(&op, repaired(-7)).await, Swapped::Done);
    assert_eq!((bag.now().await, bag.entries_now("oslo").await), (some(-7, "{}"), shown(&[(1, "u-1")])));
}

pub async fn an_entry_ends_at_its_last_given_expiry(backend: &dyn Backend) {
    if !backend.steps_clock() {
        return;
    }
    let bag = Bag::open(backend).await;
    let change = |expires: i64| {
        let expires_at = bag.probe.at(expires).as_nanos();
        let added = vec![NewItem { timestamp: place(1), value: "u-1".into(), expires_at }];
        vec![EntryChange { list: bag.entries("v"), removed: Vec::new(), added }]
    };
    assert_eq!(bag.swap(None, Some((-9, "{}")), change(60 * SECOND)).await, Swapped::Done);
    assert_eq!(bag.entries_at(bag.probe.at(60 * SECOND - 1), "v").await.len(), 1);
    assert_eq!(bag.entries_at(bag.probe.at(60 * SECOND), "v").await.len(), 0);
    assert_eq!(bag.swap(Some(-9), Some((-8, "{}")), change(90 * SECOND)).await, Swapped::Done);
    assert_eq!(bag.entries_at(bag.probe.at(90 * SECOND - 1), "v").await.len(), 1);
    assert_eq!(bag.swap(Some(-8), Some((-7, "{}")), change(30 * SECOND)).await, Swapped::Done);
    assert_eq!(bag.entries_at(bag.probe.at(30 * SECOND), "v").await.len(), 0);
}

pub async fn entries_of_many_bags_are_added_together(backend: &dyn Backend) {
    // More lists in all than a store may change in one write.
    const BAGS: usize = 60;
    const LISTS: usize = 5;
    let bag = Bag::open(backend).await;
    let name = |n: usize| format!("u-{n}");
    // Each has separate lists of entries, and one shared list.
    let own = |n: usize| (0..LISTS).map(move |list| format!("of {n}: {list}"));
    let entries = |n: usize| {
        let added = |values: String| {
            let added = vec![bag.entry(n as u64, &name(n))];
            EntryChange { list: bag.entries(&values), removed: Vec::new(), added }
        };
        own(n).chain(["all".to_owned()]).map(added).collect()
    };
    let is_other = |n: usize| n % 7 == 3;
    let is_gone = |n: usize| n % 7 == 5;
    for n in 0..BAGS {
        let bag = bag.of(&name(n));
        bag.put(None, -9, "{}").await;
        if is_other(n) {
            bag.put(Some(-9), -8, "{}").await;
        } else if is_gone(n) {
            assert_eq!(bag.swap(Some(-9), None, Vec::new()).await, Swapped::Done);
        }
    }
    let of = |n: usize| BagEntries {
        bag: bag.of(&name(n)).probe.list.clone(),
        stamp: bag.probe.at(-9),
        entries: entries(n),
    };
    // Again, it changes nothing.
    for _ in 0..2 {
        let swapped = bag.probe.session.enter_bags(&bag.probe.op(), (0..BAGS).map(of).collect()).await.unwrap();
        for (n, swapped) in swapped.iter().enumerate() {
            let expected = if is_other(n) || is_gone(n) { Swapped::Lost } else { Swapped::Done };
            assert_eq!(*swapped, expected, "{n}");
        }
        assert_eq!(swapped.len(), BAGS);
        let shown = |n: usize| (place(n as u64), Bytes::from(name(n)));
        let there = |n: &usize| !is_other(*n) && !is_gone(*n);
        let all: Vec<_> = (0..BAGS).rev().filter(there).map(shown).collect();
        assert_eq!(bag.entries_now("all").await, all);
        for (n, values) in (0..BAGS).flat_map(|n| own(n).map(move |values| (n, values))) {
            let expected: Vec<_> = Some(n).filter(there).map(shown).into_iter().collect();
            assert_eq!(bag.entries_now(&values).await, expected, "{values}");
        }
    }
    assert_eq!(bag.probe.session.enter_bags(&bag.probe.op(), Vec::new()).await.unwrap(), []);
}
