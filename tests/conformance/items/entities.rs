//! Which entities have lists of a feature version.

use std::collections::BTreeSet;

use liststore::domain::{EntityId, FeatureKey};
use liststore::items::{EntityPage, OpContext};

use super::Backend;
use super::probe::{Probe, SECOND, fresh_feature_key, list_key, ttl};

/// More parts than any walk here has.
const PARTS_MAX: usize = 10_000;

async fn fill(probe: &Probe, feature: &FeatureKey, entities: impl IntoIterator<Item = String>) {
    for entity in entities {
        probe.with_list(list_key(feature, &entity)).add(&[(0, "a"), (-1, "b")]).await;
    }
}

async fn walk(probe: &Probe, op: &OpContext, feature: &FeatureKey, limit: usize) -> Vec<EntityId> {
    let (mut met, mut from) = (Vec::new(), None);
    for _ in 0..PARTS_MAX {
        let EntityPage { entities, next } = probe.session.entities(op, feature, from.as_ref(), limit).await.unwrap();
        assert!(entities.len() <= limit);
        met.extend(entities);
        if next.is_none() {
            return met;
        }
        assert_ne!(next, from, "a walk goes on");
        from = next;
    }
    panic!("the walk does not end");
}

fn set(entities: &[EntityId]) -> BTreeSet<String> {
    entities.iter().map(ToString::to_string).collect()
}

pub async fn every_entity_is_returned_once_in_a_stable_order(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let (feature, other) = (fresh_feature_key(), fresh_feature_key());
    assert_eq!(walk(&probe, &probe.op(), &feature, 10).await, []);
    // Of all lengths: a store may order entities with one hash by them.
    let names: Vec<_> = (0..60).map(|n| format!("{}é/{n}", "u".repeat(n % 7))).collect();
    fill(&probe, &feature, names.iter().cloned()).await;
    fill(&probe, &other, (0..30).map(|n| format!("other{n}"))).await;
    let all = walk(&probe, &probe.op(), &feature, 1_000).await;
    assert_eq!((set(&all), all.len()), (names.into_iter().collect(), 60));
    for limit in [1, 7, 59, 60, 61] {
        assert_eq!(walk(&probe, &probe.op(), &feature, limit).await, all, "limit {limit}");
    }
}

pub async fn entities_without_visible_items_are_not_returned(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let feature = fresh_feature_key();
    let of = |entity: &str| probe.with_list(list_key(&feature, entity));
    of("stays").add(&[(0, "a"), (-20 * SECOND, "b")]).await;
    of("old").add(&[(-20 * SECOND, "a")]).await;
    of("cleared").add(&[(0, "a")]).await;
    of("cleared").remove_all().await;
    of("removed").add(&[(0, "a"), (-1, "a")]).await;
    assert_eq!(of("removed").remove("a").await, 2);
    of("again").add(&[(0, "a")]).await;
    of("again").remove_all().await;
    of("again").add(&[(0, "b")]).await;
    let expected = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    for limit in [1, 10] {
        let met = walk(&probe, &probe.op(), &feature, limit).await;
        assert_eq!(set(&met), expected(&["again", "old", "stays"]));
        let shortened = probe.op_at(0, ttl(10));
        assert_eq!(set(&walk(&probe, &shortened, &feature, limit).await), expected(&["again", "stays"]));
    }
}

pub async fn a_walk_returns_lasting_entities_while_others_change(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let feature = fresh_feature_key();
    fill(&probe, &feature, (0..60).map(|n| format!("stays{n}"))).await;
    fill(&probe, &feature, (0..20).map(|n| format!("goes{n}"))).await;
    let (mut met, mut from) = (Vec::new(), None);
    for part in 0..PARTS_MAX {
        let page = probe.session.entities(&probe.op(), &feature, from.as_ref(), 5).await.unwrap();
        met.extend(page.entities);
        from = page.next;
        if from.is_none() {
            break;
        }
        probe.with_list(list_key(&feature, &format!("goes{}", part % 20))).remove_all().await;
        fill(&probe, &feature, [format!("comes{part}")]).await;
    }
    assert_eq!(set(&met).len(), met.len(), "no entity is returned twice");
    let stayed = met.iter().filter(|entity| entity.as_str().starts_with("stays")).count();
    assert_eq!(stayed, 60);
}
