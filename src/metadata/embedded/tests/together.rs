//! Changes that are made together: one sync, and after a crash at any moment all of them or none.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::forgetful::{Forgetful, Forgetting};
use super::full_disk::{PLENTY, open_on_failing_disk};
use super::*;
use crate::domain::Revision;
use crate::metadata::keys::AccessStore;
use crate::metadata::{Applied, Change};

fn named(name: &str) -> NewFeature {
    let id = FeatureId { name: FeatureName::new(name).unwrap(), ..id() };
    NewFeature { id, ..new_feature() }
}

fn creations(names: &[&str]) -> Vec<(Change, ChangeContext)> {
    names.iter().map(|name| (Change::CreateFeature(named(name)), context())).collect()
}

fn outcomes(made: Vec<Result<Applied, MetadataError>>) -> Vec<Result<u64, String>> {
    made.into_iter().map(|made| made.map(|made| made.revision.0).map_err(|error| error.to_string())).collect()
}

async fn names(store: &impl MetadataStore) -> (u64, Vec<String>) {
    let Definitions { revision, features } = store.definitions().await.unwrap();
    (revision.0, features.iter().map(|feature| feature.id.name.to_string()).collect())
}

#[tokio::test]
async fn changes_share_a_sync_and_have_separate_outcomes() {
    let file = Forgetful::default();
    let store = file.open().unwrap();
    store.create_feature(named("a"), context()).await.unwrap();
    let before = file.inner().syncs;
    let mut changes = creations(&["b", "a", "c", "b"]);
    // Each decision depends on the result of the previous changes.
    changes.push((Change::DeleteFeature { id: named("b").id, condition: Precondition::None }, context()));
    changes.extend(creations(&["b"]));
    let made = store.apply_together(changes).await;
    assert_eq!(file.inner().syncs - before, 1);
    let exists = |name| Err(MetadataError::exists(named(name).id).to_string());
    assert_eq!(outcomes(made), [Ok(2), exists("a"), Ok(3), exists("b"), Ok(4), Ok(5)]);
    let again = store.feature(&named("b").id).await.unwrap().unwrap();
    assert_eq!(again.versions[0].generation.as_u64(), 2);
    assert_eq!(names(&store).await, (5, vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]));
    let history = store.history(&again.id, None, Limit::of_page(10).unwrap()).await.unwrap().unwrap();
    assert_eq!(history.entries.iter().map(|entry| entry.revision.0).collect::<Vec<_>>(), [5, 4, 2]);
}

#[tokio::test]
async fn a_failure_fails_only_its_changes() {
    let (path, left) = (tempfile::tempdir().unwrap(), Arc::new(AtomicI64::new(PLENTY)));
    let store = open_on_failing_disk(path.path().join(FILE_NAME), &left);
    store.create_feature(named("a"), context()).await.unwrap();
    left.store(0, Ordering::SeqCst);
    let made = store.apply_together(creations(&["a", "b", "b"])).await;
    assert!(matches!(made[0], Err(MetadataError::FeatureExists(_))), "{:?}", made[0]);
    for failed in &made[1..] {
        assert!(matches!(failed, Err(MetadataError::Unavailable { .. })), "{failed:?}");
    }
    assert!(store.feature(&named("b").id).await.unwrap().is_none());
    left.store(PLENTY, Ordering::SeqCst);
    let (revision, names) = names(&store).await;
    assert_eq!(revision as usize, names.len());
    assert!(names == ["a"] || names == ["a", "b"], "{names:?}");
}

/// A crash leaves any part of a commit's writes.
#[tokio::test]
async fn a_crash_at_any_moment_leaves_all_changes_or_none() {
    let file = Forgetful::default();
    let store = file.open().unwrap();
    store.apply_together(creations(&["a", "b"])).await.into_iter().for_each(|made| drop(made.unwrap()));
    let before = file.inner().present.clone();
    file.inner().written.clear();
    store.apply_together(creations(&["c", "d", "e"])).await.into_iter().for_each(|made| drop(made.unwrap()));
    let after = file.inner().present.clone();
    let writes = file.inner().written.clone();
    assert!(writes.len() > 5, "{}", writes.len());
    let whole = (5, ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec());
    let none = (2, whole.1[..2].to_vec());
    // Prefixes of the writes, and random parts of them: a fixed sequence of bits selects them.
    let counts = (0..writes.len()).step_by(writes.len().div_ceil(4)).chain([writes.len() - 1, writes.len()]);
    let beginnings = counts.map(|count| (0..writes.len()).map(|at| at < count).collect::<Vec<_>>());
    let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bit = || {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        bits & 1 == 1
    };
    let parts: Vec<Vec<bool>> = (0..4).map(|_| writes.iter().map(|_| bit()).collect()).collect();
    let mut found = BTreeMap::new();
    for chosen in beginnings.chain(parts) {
        let mut image = before.clone();
        image.resize(after.len(), 0);
        for ((at, bytes), _) in writes.iter().zip(&chosen).filter(|(_, chosen)| **chosen) {
            Forgetting::put(&mut image, *at, bytes);
        }
        let crashed = Forgetful::holding(image);
        let store = crashed.open().unwrap_or_else(|error| panic!("{chosen:?}: {error:?}"));
        let left = names(&store).await;
        assert!(left == whole || left == none, "{left:?} of {chosen:?}");
        *found.entry(left).or_insert(0) += 1;
    }
    assert_eq!(found.len(), 2, "{found:?}");
}

#[tokio::test]
async fn a_store_settles_when_it_is_closed_and_again_after_a_failure() {
    let file = Forgetful::default();
    let store = file.open().unwrap();
    store.create_feature(named("a"), context()).await.unwrap();
    let syncs = || file.inner().syncs;
    let made = syncs();
    store.close().await;
    let settled = syncs();
    assert!(settled > made);
    store.close().await;
    assert_eq!(syncs(), settled, "there is nothing left to do");
    store.create_feature(named("b"), context()).await.unwrap();
    file.fail_sync_after(0);
    store.settle().await.unwrap_err();
    store.settle().await.unwrap();
    let settled = syncs();
    store.settle().await.unwrap();
    assert_eq!(syncs(), settled);
}

/// As with a file whose last transaction is damaged: readers that have read the lost change read everything.
#[tokio::test]
async fn a_file_that_went_back_is_reported_to_readers_of_later_revisions() {
    let file = Forgetful::default();
    let store = file.open().unwrap();
    store.create_feature(named("a"), context()).await.unwrap();
    let before = file.inner().durable.clone();
    store.create_feature(named("lost"), context()).await.unwrap();
    assert!(store.changes(Revision(2)).await.unwrap().is_some());
    file.fail_sync_after(0);
    store.create_feature(named("fails"), context()).await.unwrap_err();
    {
        let mut inner = file.inner();
        (inner.present, inner.durable) = (before.clone(), before);
        inner.unsynced.clear();
    }
    assert!(store.changes(Revision(2)).await.unwrap().is_none());
    assert_eq!(names(&store).await, (1, vec!["a".to_owned()]));
    // Another change has its revision.
    store.create_feature(named("b"), context()).await.unwrap();
    assert!(store.changes(Revision(2)).await.unwrap().is_none());
    assert!(store.keys(Some(Revision(2))).await.unwrap().is_some());
    store.create_feature(named("c"), context()).await.unwrap();
    assert!(store.changes(Revision(3)).await.unwrap().is_some());
    assert!(store.keys(Some(Revision(3))).await.unwrap().is_none());
}

/// A sync fails, or the power is lost, after other changes were acknowledged.
#[tokio::test]
async fn acknowledged_changes_survive_a_loss_of_power() {
    let file = Forgetful::default();
    let store = file.open().unwrap();
    for batch in 0..5 {
        let names: Vec<_> = (0..3).map(|number| format!("f{batch}_{number}")).collect();
        let made = store.apply_together(creations(&names.iter().map(String::as_str).collect::<Vec<_>>())).await;
        assert!(made.iter().all(Result::is_ok), "{made:?}");
        if batch == 2 {
            store.settle().await.unwrap();
        }
        let acknowledged = self::names(&store).await;
        let lost = Forgetful::holding(file.inner().durable.clone());
        assert_eq!(self::names(&lost.open().unwrap()).await, acknowledged);
    }
}
