//! Lists are separate, with any similarity of their keys.

use liststore::domain::ListKey;
use liststore_testkit::in_turn::open_session;

use super::Backend;
use super::probe::{Probe, SECOND, feature_key, fresh_feature_key, list_key, ttl};

/// Lists with similar keys.
fn look_alikes() -> Vec<ListKey> {
    let name = format!("f{}", uuid::Uuid::new_v4().simple());
    let longer = format!("{name}x");
    let long = |last: &str| format!("{}{last}", "x".repeat(511));
    let long_unicode = |last: &str| format!("{}{last}", "é".repeat(255));
    let of = |name: &str, version: &str, generation, entity_id: &str| {
        list_key(&feature_key(name, version, generation), entity_id)
    };
    let mut lists = vec![
        of(&longer, "", 1, "u"),
        of(&name, "v", 1, "u"),
        of(&name, "v", 2, "u"),
        of(&name, "v", 22, "u"),
        of(&name, "", 2, "u"),
        // The same text when the two halves of the key are joined.
        of(&name, "a", 1, "bc"),
        of(&name, "ab", 1, "c"),
        of(&name, "", 1, "v"),
        of(&name, "", 1, &long("a")),
        of(&name, "", 1, &long("b")),
        of(&name, "", 1, &long_unicode("a")),
        of(&name, "", 1, &long_unicode("b")),
    ];
    let entity_ids = [
        "u",
        "U",
        "uu",
        "u ",
        " u",
        "u\u{1}",
        "u/",
        "u#",
        "u|",
        "u%00",
        "u'",
        "é",
        "e\u{301}",
        "É",
        "\u{fffd}",
        "\u{10ffff}",
        "😀",
        "0",
        "00",
        "1724949845430000000#cUEirgoj2hOWvLLGgJ8hrQ==",
    ];
    lists.extend(entity_ids.map(|entity_id| of(&name, "", 1, entity_id)));
    lists
}

async fn probes(backend: &dyn Backend) -> Vec<Probe> {
    let first = Probe::open(backend).await;
    look_alikes().into_iter().map(|list| first.with_list(list)).collect()
}

pub async fn lists_with_similar_keys_are_separate(backend: &dyn Backend) {
    let probes = probes(backend).await;
    let own = |n: usize| [(-1, "shared".to_owned()), (-2, format!("own{n}"))];
    for (n, probe) in probes.iter().enumerate() {
        assert!(probe.all().await.is_empty(), "{:?} holds the items of another", probe.list);
        probe.add(&own(n)).await;
    }
    for (n, probe) in probes.iter().enumerate() {
        assert_eq!(probe.all().await, probe.in_order(&own(n)), "{:?}", probe.list);
    }
}

pub async fn a_removal_affects_only_its_list(backend: &dyn Backend) {
    let probes = probes(backend).await;
    for probe in &probes {
        probe.add(&[(0, "shared"), (-1, "shared"), (-1, "other")]).await;
    }
    for (n, probe) in probes.iter().enumerate() {
        let mut left = vec![(-1, "other")];
        if n % 2 == 0 {
            assert_eq!(probe.remove("shared").await, 2, "{:?}", probe.list);
        } else {
            probe.remove_all().await;
            left.clear();
        }
        assert_eq!(probe.all().await, probe.in_order(&left), "{:?}", probe.list);
        if let Some(next) = probes.get(n + 1) {
            assert_eq!(next.all().await.len(), 3, "{:?} lost items to {:?}", next.list, probe.list);
        }
    }
}

pub async fn sessions_see_writes_acknowledged_by_others(backend: &dyn Backend) {
    let store = backend.open().await;
    let feature_key = fresh_feature_key();
    let mut writers = Vec::new();
    for n in 0..3 {
        let list = list_key(&feature_key, &format!("u-{n}"));
        writers.push(Probe::of(store.clone(), list, backend.now(), ttl(3_600)).await);
    }
    let reader = open_session(&*store).await;
    for round in 0..5_i64 {
        for (n, writer) in writers.iter().enumerate() {
            writer.add(&[(-round * SECOND, format!("{n}/{round}"))]).await;
            let elsewhere = Probe { session: reader.clone(), ..writer.clone() };
            assert_eq!(elsewhere.all().await.len(), round as usize + 1);
        }
    }
    writers[1].remove_all().await;
    let counts = async |n: usize| Probe { session: reader.clone(), ..writers[n].clone() }.all().await.len();
    assert_eq!((counts(0).await, counts(1).await, counts(2).await), (5, 0, 5));
}
