//! Short ways to make and change definitions.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use liststore::definition::Feature;
use liststore::definition::{GivenProperties, VersionProperties};
use liststore::domain::{
    Author, Description, EntityType, FeatureId, FeatureName, Labels, Limit, Owner, Revision, Timestamp, Ttl, ValueType,
    VersionLabel,
};
use liststore::metadata::{
    Calls, ChangeContext, FeaturePatch, HistoryEntry, MetadataStore, NewFeature, NewVersion, Precondition, VersionPatch,
};

pub const ANY: Precondition = Precondition::None;

pub fn id(entity_type: &str, name: &str) -> FeatureId {
    FeatureId { entity_type: EntityType::new(entity_type).unwrap(), name: FeatureName::new(name).unwrap() }
}

pub fn label(text: &str) -> VersionLabel {
    VersionLabel::new(text).unwrap()
}

pub fn ttl(secs: u64) -> Ttl {
    Ttl::from_secs(secs).unwrap()
}

pub fn of_ttl(secs: u64) -> VersionProperties {
    VersionProperties { ttl: ttl(secs), ..VersionProperties::default() }
}

pub fn given_ttl(secs: u64) -> GivenProperties {
    GivenProperties { ttl: Some(ttl(secs)), ..GivenProperties::default() }
}

pub fn description(text: &str) -> Description {
    Description::new(text).unwrap()
}

pub fn owner(text: &str) -> Owner {
    Owner::new(text).unwrap()
}

pub fn labels(labels: &[(&str, &str)]) -> Labels {
    Labels::new(labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<BTreeMap<_, _>>()).unwrap()
}

pub fn page_size(n: usize) -> Limit {
    Limit::of_page(n).unwrap()
}

pub fn only_if(revision: Revision) -> Precondition {
    Precondition::OneOf(vec![revision])
}

/// A moment without another change. Whole microseconds, because a database may store no more.
pub fn by(author: &str) -> ChangeContext {
    static MICROS: AtomicU64 = AtomicU64::new(1_724_949_845_430_001);
    let at = Timestamp::from_nanos(MICROS.fetch_add(1, Ordering::Relaxed) * 1_000).unwrap();
    ChangeContext { by: Author::new(author).unwrap(), at }
}

pub fn new_feature(id: &FeatureId) -> NewFeature {
    NewFeature {
        id: id.clone(),
        value_type: ValueType::String,
        properties: of_ttl(3_600),
        description: Description::default(),
        owner: Owner::default(),
        labels: Labels::default(),
    }
}

pub fn new_version(version: &str) -> NewVersion {
    NewVersion {
        version: label(version),
        properties: GivenProperties::default(),
        index: None,
        description: Description::default(),
    }
}

pub fn feature_ttl(secs: u64) -> FeaturePatch {
    given_ttl(secs).into()
}

pub fn version_ttl(secs: u64) -> VersionPatch {
    given_ttl(secs).into()
}

pub async fn create(store: &dyn MetadataStore, id: &FeatureId) -> Feature {
    store.create_feature(new_feature(id), by("creator")).await.unwrap()
}

/// The feature as the store has it now.
pub async fn read(store: &dyn MetadataStore, id: &FeatureId) -> Feature {
    store.feature(id).await.unwrap().unwrap()
}

/// The whole history, or `None` where there never was such a feature.
pub async fn whole_history(store: &dyn MetadataStore, id: &FeatureId) -> Option<Vec<HistoryEntry>> {
    store.history(id, None, page_size(1_000)).await.unwrap().map(|page| {
        assert!(!page.more);
        page.entries
    })
}

pub fn revisions(entries: &[HistoryEntry]) -> Vec<Revision> {
    entries.iter().map(|entry| entry.revision).collect()
}

/// Asserts that an answer is a refusal of one kind.
macro_rules! assert_refused {
    ($answer:expr, $kind:pat $(if $guard:expr)?) => {
        match $answer {
            Err($kind) $(if $guard)? => {}
            other => panic!("expected {}, got {other:?}", stringify!($kind)),
        }
    };
}
pub(crate) use assert_refused;
