//! Compares rows with a plain model: packed items are read again, and joined rows contain all items.

use std::cmp::{Ordering, Reverse};

use bytes::Bytes;
use liststore_contract::domain::{ItemKey, NewItem, Timestamp, ValueDigest};
use proptest::prelude::*;

use super::*;

fn unpack(row: Bytes) -> Result<Vec<(u64, u64, bool, Bytes)>, Malformed> {
    let mut cursor = RowCursor::new(row)?;
    let mut items = Vec::new();
    while let Some(entry) = cursor.entry() {
        items.push((entry.timestamp, entry.expires_at, entry.deleted, cursor.value_bytes()));
        cursor.advance()?;
    }
    Ok(items)
}

#[test]
fn short_values_one_second_apart_take_few_bytes() {
    let mut builder = RowBuilder::default();
    for i in 0..100_u64 {
        let time = 1_700_000_000_000_000_000 - i * 1_000_000_000;
        builder.push(time, time + 5, false, format!("value-{i:06}").as_bytes());
    }
    let row = builder.finish();
    assert!(row.len() <= 100 * (12 + 1 + 5) + 12, "{}", row.len());
}

#[test]
fn equal_values_are_written_once() {
    let mut builder = RowBuilder::default();
    for i in 0..100 {
        builder.push(1_000 - i, 0, true, &[7; 1_000]);
    }
    let row = builder.finish();
    assert!(row.len() < 1_300, "{}", row.len());
    assert!(unpack(row).unwrap().iter().all(|(_, _, deleted, value)| *deleted && **value == [7; 1_000]));
}

#[test]
fn a_deleted_item_has_the_digest_and_position_of_its_item() {
    let (long, short) = ([7; 60_000], [7; DIGEST_LEN]);
    let deleted = |value: &[u8]| {
        let mut builder = RowBuilder::default();
        builder.push_deleted(5, value, || ValueDigest::of(value));
        assert_eq!(builder.last_digest(), ValueDigest::of(value));
        builder.finish()
    };
    let stored = |value: &[u8]| {
        let mut builder = RowBuilder::default();
        builder.push(5, 9, false, value);
        builder.finish()
    };
    for value in [&long[..], &short] {
        let row = deleted(value);
        assert!(row.len() < 30, "{}", row.len());
        assert_eq!(inspect(&row).unwrap().last_digest(&row), ValueDigest::of(value));
        let of = |row: Bytes| RowCursor::new(row).unwrap();
        for (other, order) in [(stored(value), Ordering::Equal), (deleted(value), Ordering::Equal)] {
            assert_eq!(of(row.clone()).cmp_tied(&of(other.clone())), order);
            assert_eq!(of(other).cmp_tied(&of(row.clone())), order);
        }
        // An item whose value is the digest is a different one.
        let digest = ValueDigest::of(value);
        let other = of(stored(digest.as_bytes()));
        assert_eq!(of(row.clone()).cmp_tied(&other), digest.cmp(&ValueDigest::of(digest.as_bytes())));
        // A later item that shares its bytes has its own digest.
        let mut builder = RowBuilder::default();
        let mut cursor = of(row.clone());
        builder.push_entry(cursor.entry().unwrap(), cursor.value());
        builder.push(4, 9, false, cursor.value());
        let value_there = cursor.value().to_vec();
        cursor = of(builder.finish());
        assert_eq!(cursor.digest(), digest);
        cursor.advance().unwrap();
        assert_eq!((cursor.digest(), cursor.value()), (ValueDigest::of(&value_there), &value_there[..]));
    }
}

#[test]
fn a_row_without_items_is_valid() {
    assert_eq!(unpack(RowBuilder::default().finish()), Ok(vec![]));
}

proptest! {
    #[test]
    fn rows_round_trip(mut items: Vec<(u64, u64, bool, Vec<u8>)>) {
        items.sort_by_key(|item| Reverse(item.0));
        let mut builder = RowBuilder::default();
        for (timestamp, expires_at, deleted, value) in &items {
            builder.push(*timestamp, *expires_at, *deleted, value);
        }
        let row = builder.finish();
        let read = unpack(row.clone()).unwrap();
        prop_assert_eq!(read.len(), items.len());
        for (read, item) in read.iter().zip(&items) {
            prop_assert_eq!((read.0, read.2, &*read.3), (item.0, item.2, &*item.3));
            prop_assert!(item.2 || read.1 == item.1);
        }
        // Every cut is detected, and none panics.
        for cut in 0..row.len() {
            prop_assert!(unpack(row.slice(..cut)).is_err());
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes: Vec<u8>, others: Vec<u8>) {
        let _ = (join(&bytes, 7, &others, u64::MAX), join(&bytes, 7, &others, 3));
        let _ = unpack(Bytes::from(bytes));
    }

    #[test]
    fn joined_rows_equal_rows_of_the_joined_items(
        mut items in prop::collection::vec((0_u64..1_000, 0_u64..2, any::<bool>(), prop::collection::vec(0_u8..3, 0..3)), 2..40),
        cut in 1_usize..39,
        older_max in 1_usize..40,
    ) {
        items.sort_by_key(|item| Reverse(item.0));
        let built = |items: &[(u64, u64, bool, Vec<u8>)]| {
            let mut builder = RowBuilder::default();
            items.iter().for_each(|(time, life, deleted, value)| builder.push(*time, time + life, *deleted, value));
            builder
        };
        let life = |items: &[(u64, u64, bool, Vec<u8>)]| items.iter().find(|item| !item.2).map(|item| item.1);
        let (newer, older) = items.split_at(cut.min(items.len() - 1));
        let (newest_below, oldest_above) = (older[0].0, newer[newer.len() - 1].0);
        let (newer_row, older_row) = (built(newer).finish(), built(older).finish());
        let kept = &older[..older_max.min(older.len())];
        let holds = |row: Bytes, expected: &[(u64, u64, bool, Vec<u8>)]| {
            let read = unpack(row).unwrap();
            read.len() == expected.len()
                && read.iter().zip(expected).all(|(read, item)| {
                    let same_item = (read.0, read.2, &*read.3) == (item.0, item.2, &*item.3);
                    same_item && (item.2 || read.1 == item.0 + item.1)
                })
        };
        match join(&newer_row, oldest_above, &older_row, older_max as u64) {
            Some(joined) => {
                prop_assert!(oldest_above > newest_below);
                prop_assert!(holds(joined, &[newer, kept].concat()));
            }
            None => prop_assert!(oldest_above <= newest_below || life(newer).unwrap_or(0) != life(older).unwrap_or(0)),
        }
        // After a row of either kind, items find their predecessor.
        let mut builder = built(newer);
        let inspected = inspect(&older_row).unwrap();
        if builder.push_row(&older_row, &inspected) {
            let last = older.last().unwrap();
            builder.push(last.0, last.0 + last.1, last.2, &last.3);
            builder.push(last.0, last.0 + last.1, last.2, b"another");
            let another = (last.0, last.1, last.2, b"another".to_vec());
            prop_assert!(holds(builder.finish(), &[newer, older, &[last.clone(), another]].concat()));
        } else {
            prop_assert!(life(newer).is_some() && life(older).is_some() && life(newer) != life(older));
        }
        // The rest of a row, from any item on, can follow another row.
        for skipped in 0..older.len() {
            let mut cursor = RowCursor::new(older_row.clone()).unwrap();
            (0..skipped).for_each(|_| cursor.advance().unwrap());
            let mut builder = built(newer);
            let room = builder.body_len() + cursor.rest_len();
            if builder.push_rest(&cursor) {
                prop_assert!(builder.body_len() <= room);
                prop_assert!(holds(builder.finish(), &[newer, &older[skipped..]].concat()));
            } else {
                prop_assert!(life(newer) != Some(life(older).unwrap_or(0)));
                prop_assert!(holds(builder.finish(), newer));
            }
        }
        let mut alone = RowBuilder::default();
        prop_assert!(alone.push_row(&older_row, &inspected));
        prop_assert_eq!(alone.finish(), older_row);
    }

    #[test]
    fn items_are_packed_in_the_order_of_their_keys(raw in prop::collection::vec((0_u64..4, 0_u8..4, 0_u64..100), 1..40)) {
        let items: Vec<_> = raw.iter().map(|(t, v, e)| NewItem {
            timestamp: Timestamp::from_nanos(*t).unwrap(), value: Bytes::from(vec![*v]), expires_at: *e,
        }).collect();
        let mut model = std::collections::BTreeMap::new();
        for item in &items {
            model.insert(ItemKey::new(item.timestamp, ValueDigest::of(&item.value)), item.expires_at);
        }
        let packed: Vec<_> = unpack(pack(items)).unwrap().into_iter().map(|(t, e, _, v)| {
            (ItemKey::new(Timestamp::from_nanos(t).unwrap(), ValueDigest::of(&v)), e)
        }).collect();
        prop_assert_eq!(packed, model.into_iter().rev().collect::<Vec<_>>());
    }
}
