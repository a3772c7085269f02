//! Removal, by value and of all items: the removed items, the remaining ones, and the counts.

use futures_util::future::join;
use liststore::items::{Bounds, Removal};

use super::Backend;
use super::probe::{EVERYTHING, HOUR, Probe, SECOND, numbered, ttl};

pub async fn every_item_with_the_value_is_removed_and_no_other(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items: Vec<_> = (0..90_i64).map(|n| (-(n / 2), format!("v{}", n % 7))).collect();
    probe.add(&items).await;
    let with = |value: &str| items.iter().filter(|item| item.1 == value).count() as u64;
    assert_eq!(probe.remove("v3").await, with("v3"));
    let rest: Vec<_> = items.iter().filter(|item| item.1 != "v3").cloned().collect();
    assert_eq!(probe.all().await, probe.in_order(&rest));
    assert_eq!(probe.walk(&probe.op(), EVERYTHING, 4).await, probe.in_order(&rest));
}

pub async fn hidden_items_are_removed_and_not_counted(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    probe.add(&[(0, "a"), (-5 * SECOND, "a"), (-10 * SECOND, "a"), (-20 * SECOND, "a"), (-20 * SECOND, "b")]).await;
    // Under this TTL the two oldest are hidden, the elder of them at its very nanosecond.
    let shortened = probe.op_at(0, ttl(10));
    assert_eq!(probe.session.remove_value(&shortened, &probe.list, b"a").await.unwrap(), 2);
    assert_eq!(probe.all().await, probe.in_order(&[(-20 * SECOND, "b")]), "hidden items came back");
}

pub async fn items_past_their_own_expiry_are_not_counted(backend: &dyn Backend) {
    if !backend.steps_clock() {
        // There such rows are gone altogether: see the cases of `expiry`.
        return;
    }
    let probe = Probe::open(backend).await;
    probe.add_at(&probe.op_at(0, ttl(10)), &[(0, "a"), (1, "a")]).await;
    probe.add(&[(2, "a")]).await;
    let later = probe.op_at(10 * SECOND, probe.ttl);
    assert_eq!(probe.session.remove_value(&later, &probe.list, b"a").await.unwrap(), 2);
    assert!(probe.all().await.is_empty());
}

pub async fn similar_values_stay(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let values: [&[u8]; 12] =
        [b"", b"a", b"aa", b"ab", b"A", b"a ", b" a", b"a\0", b"\0a", b"a\xff", b"\xc3\xa9", b"e\xcc\x81"];
    let items: Vec<_> = values.iter().map(|value| (-1, *value)).chain([(0, b"a".as_slice())]).collect();
    for value in values {
        probe.remove_all().await;
        probe.add(&items).await;
        let rest: Vec<_> = items.iter().filter(|item| item.1 != value).copied().collect();
        assert_eq!(probe.remove(value).await, (items.len() - rest.len()) as u64, "{value:?}");
        assert_eq!(probe.all().await, probe.in_order(&rest), "{value:?}");
    }
    assert_eq!(probe.remove(b"not there").await, 0);
}

/// Two messages with one MD5 (X. Wang, D. Feng, X. Lai and H. Yu, "Collisions for Hash Functions
/// MD4, MD5, HAVAL-128 and RIPEMD", Cryptology ePrint Archive 2004/199).
const COLLISION: [&str; 2] = [
    "d131dd02c5e6eec4693d9a0698aff95c2fcab58712467eab4004583eb8fb7f8955ad340609f4b30283e488832571415a\
     085125e8f7cdc99fd91dbdf280373c5bd8823e3156348f5bae6dacd436c919c6dd53e2b487da03fd02396306d248cda0\
     e99f33420f577ee8ce54b67080a80d1ec69821bcb6a8839396f9652b6ff72a70",
    "d131dd02c5e6eec4693d9a0698aff95c2fcab50712467eab4004583eb8fb7f8955ad340609f4b30283e4888325f1415a\
     085125e8f7cdc99fd91dbd7280373c5bd8823e3156348f5bae6dacd436c919c6dd53e23487da03fd02396306d248cda0\
     e99f33420f577ee8ce54b67080280d1ec69821bcb6a8839396f965ab6ff72a70",
];

pub async fn a_value_with_the_same_md5_stays(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let byte = |hex: &[u8]| u8::from_str_radix(std::str::from_utf8(hex).unwrap(), 16).unwrap();
    let [one, other] = COLLISION.map(|hex| hex.as_bytes().chunks(2).map(byte).collect::<Vec<_>>());
    assert_ne!(one, other);
    assert_eq!(probe.key(0, &one), probe.key(0, &other), "the digests collide");
    let items = [(0, &one), (-1, &other), (-2, &one), (-3, &other)];
    probe.add(&items).await;
    assert_eq!(probe.remove(&one).await, 2);
    assert_eq!(probe.all().await, probe.in_order(&[items[1], items[3]]));
    assert_eq!(probe.remove(&other).await, 2);
    assert!(probe.all().await.is_empty());
}

pub async fn the_empty_value_can_be_removed(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    probe.add(&[(0, ""), (-1, ""), (-1, "a")]).await;
    assert_eq!(probe.remove("").await, 2);
    assert_eq!(probe.all().await, probe.in_order(&[(-1, "a")]));
}

pub async fn the_largest_value_can_be_removed(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let large = vec![9; 64_000];
    let similar = vec![9; 63_999];
    for offset in [0, -1] {
        probe.add(&[(offset, &large)]).await;
        probe.add(&[(offset, &similar)]).await;
    }
    assert_eq!(probe.remove(&large).await, 2);
    assert_eq!(probe.all().await, probe.in_order(&[(0, &similar), (-1, &similar)]));
}

pub async fn a_value_found_a_thousand_times_is_removed_completely(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    for part in 0..3_i64 {
        let items: Vec<_> = (0..700).map(|n| (-(part * 700 + n), if n % 2 == 0 { "even" } else { "odd" })).collect();
        probe.add(&items).await;
    }
    assert_eq!(probe.remove("even").await, 1_050);
    let left = probe.all().await;
    assert_eq!(left.len(), 1_050);
    assert!(left.iter().all(|(_, value)| value == b"odd"));
}

pub async fn removing_again_counts_zero(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    assert_eq!(probe.remove("a").await, 0, "of a list that was never written");
    probe.add(&[(0, "a"), (-1, "b")]).await;
    assert_eq!(probe.remove("a").await, 1);
    assert_eq!(probe.remove("a").await, 0);
    assert_eq!(probe.all().await, probe.in_order(&[(-1, "b")]));
}

pub async fn removed_items_can_be_added_again(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items = [(0, "a"), (-1, "a"), (-1, "b")];
    for round in 0..10 {
        probe.add(&items).await;
        assert_eq!(probe.all().await, probe.in_order(&items), "round {round}");
        assert_eq!(probe.remove("a").await, 2, "round {round}");
        assert_eq!(probe.all().await, probe.in_order(&items[2..]), "round {round}");
    }
    probe.add(&items[..1]).await;
    assert_eq!(probe.all().await, probe.in_order(&[items[0], items[2]]));
}

pub async fn remove_all_empties_the_list(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    probe.remove_all().await;
    for part in 0..3 {
        let values = numbered(&format!("{part}/"), 1_000);
        probe.add(&values.iter().enumerate().map(|(n, value)| (-(n as i64), value)).collect::<Vec<_>>()).await;
    }
    probe.remove_all().await;
    assert!(probe.all().await.is_empty());
    assert_eq!(probe.remove("0/1").await, 0, "removed items are found by value");
    probe.remove_all().await;
    assert!(probe.all().await.is_empty());
}

pub async fn remove_all_includes_hidden_items(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    probe.add(&[(0, "a"), (-20 * SECOND, "b")]).await;
    probe.session.remove_all(&probe.op_at(HOUR / 2, ttl(1)), &probe.list).await.unwrap();
    assert!(probe.all().await.is_empty());
}

pub async fn a_list_can_be_filled_again_after_remove_all(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items = [(0, "a"), (-1, "b"), (-2, "a")];
    for round in 0..10 {
        probe.add(&items).await;
        assert_eq!(probe.all().await, probe.in_order(&items), "round {round}");
        probe.remove_all().await;
        assert!(probe.all().await.is_empty(), "round {round}");
        // An item that is added again is found by value, and no older item with it.
        probe.add(&items[..1]).await;
        assert_eq!(probe.remove("a").await, 1, "round {round}");
    }
}

pub async fn adds_that_overlap_a_removal_of_another_value_stay(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    probe.add(&(0..300).map(|n| (-n, "unwanted")).collect::<Vec<_>>()).await;
    let kept: Vec<_> = (0..20).map(|n| (-n, format!("kept{n}"))).collect();
    let adds = async {
        for item in &kept {
            probe.add(std::slice::from_ref(item)).await;
        }
    };
    let (removed, ()) = join(probe.remove("unwanted"), adds).await;
    assert_eq!(removed, 300);
    assert_eq!(probe.all().await, probe.in_order(&kept));
}

pub async fn named_items_are_removed_and_no_other(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items: Vec<_> = (0..60_i64).map(|n| (-(n / 3), format!("v{n}"))).collect();
    probe.add(&items).await;
    // One twice, one of another time, and one that never existed.
    let mut named: Vec<_> = items.iter().step_by(2).cloned().collect();
    named.extend([items[0].clone(), (-1, "v0".to_owned()), (1, "x".to_owned())]);
    assert_eq!(probe.remove_items(&named).await, 30);
    let rest: Vec<_> = items.iter().skip(1).step_by(2).cloned().collect();
    assert_eq!(probe.all().await, probe.in_order(&rest));
    assert_eq!(probe.remove_items(&named).await, 0, "again");
    probe.add(&named[..1]).await;
    assert_eq!(probe.remove_items(&named).await, 1, "added again");
    assert_eq!(probe.all().await, probe.in_order(&rest));
}

pub async fn a_thousand_named_items_are_removed_at_once(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items: Vec<_> = (0..2_000_i64).map(|n| (-(n / 2), format!("v{n}"))).collect();
    for part in items.chunks(1_000) {
        probe.add(part).await;
    }
    let named: Vec<_> = items.iter().step_by(2).cloned().collect();
    assert_eq!(probe.remove_items(&named).await, 1_000);
    let rest: Vec<_> = items.iter().skip(1).step_by(2).cloned().collect();
    assert_eq!(probe.all().await, probe.in_order(&rest));
}

pub async fn all_items_between_two_moments_are_removed_and_no_other(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items: Vec<_> = (0..90_i64).map(|n| (-(n / 3), format!("v{n}"))).collect();
    probe.add(&items).await;
    assert_eq!(probe.remove_between(-20, -10).await, 33, "both moments are inclusive");
    let rest: Vec<_> = items.iter().filter(|(at, _)| !(-20..=-10).contains(at)).cloned().collect();
    assert_eq!(probe.all().await, probe.in_order(&rest));
    assert_eq!(probe.remove_between(-20, -10).await, 0, "again");
    // A later add stays, also after the removal of all.
    probe.add(&items[45..46]).await;
    let rest: Vec<_> = rest.into_iter().chain([items[45].clone()]).collect();
    assert_eq!(probe.all().await, probe.in_order(&rest));
    let everything = Removal::Between(Bounds::ALL);
    let removed = probe.session.remove(&probe.op(), &probe.list, &everything).await.unwrap();
    assert_eq!(removed, rest.len() as u64);
    assert!(probe.all().await.is_empty());
}

pub async fn hidden_items_between_two_moments_are_removed_too(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    probe.add(&[(0, "a"), (-5 * SECOND, "b"), (-20 * SECOND, "c"), (-30 * SECOND, "d")]).await;
    let between = Removal::Between(probe.bounds(-20 * SECOND, -1));
    assert_eq!(probe.session.remove(&probe.op_at(0, ttl(10)), &probe.list, &between).await.unwrap(), 1);
    assert_eq!(probe.all().await, probe.in_order(&[(0, "a"), (-30 * SECOND, "d")]), "hidden items came back");
    let named = Removal::Items(vec![(probe.at(-30 * SECOND), "d".into()), (probe.at(0), "a".into())]);
    assert_eq!(probe.session.remove(&probe.op_at(0, ttl(10)), &probe.list, &named).await.unwrap(), 1);
    assert!(probe.all().await.is_empty());
}

/// More than one part of a removal, in a store that does it in parts.
pub async fn large_items_between_two_moments_are_removed_completely(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let large = |n: i64| (-n, [vec![b'x'; 60_000], n.to_string().into_bytes()].concat());
    let items: Vec<_> = (0..150).map(large).collect();
    for part in items.chunks(15) {
        probe.add(part).await;
    }
    assert_eq!(probe.remove_between(-139, -10).await, 130);
    let rest = [&items[..10], &items[140..]].concat();
    assert_eq!(probe.all().await, probe.in_order(&rest));
}
