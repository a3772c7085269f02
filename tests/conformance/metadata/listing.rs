//! Listing features: order, pages, filters.

use liststore::domain::FeatureId;
use liststore::metadata::{Calls, FeatureFilter, MetadataStore, NewFeature};

use super::MetadataBackend;
use super::sample::*;

async fn walk(store: &dyn MetadataStore, filter: &FeatureFilter, size: usize) -> Vec<String> {
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = store.features(filter, after.as_ref(), page_size(size)).await.unwrap();
        assert!(page.entries.len() <= size && (!page.more || page.entries.len() == size));
        seen.extend(page.entries.iter().map(|feature| feature.id.to_string()));
        match page.entries.last() {
            Some(last) if page.more => after = Some(last.id.clone()),
            _ => return seen,
        }
    }
}

fn text(text: &str) -> FeatureFilter {
    FeatureFilter { text: Some(text.to_owned()), ..FeatureFilter::default() }
}

async fn create_all(store: &dyn MetadataStore, ids: &[FeatureId]) {
    for id in ids {
        create(store, id).await;
    }
}

/// In byte order, which is not a language's order: capitals, digits and punctuation as ASCII has them.
fn ordered() -> Vec<FeatureId> {
    [
        ("-", "z"),
        ("1", "a"),
        ("User", "a"),
        ("_", "a"),
        ("user", "-"),
        ("user", "10"),
        ("user", "2"),
        ("user", "A"),
        ("user", "Z"),
        ("user", "_"),
        ("user", "a"),
        ("user", "a-"),
        ("user", "a.b"),
        ("user", "aa"),
        ("user-x", "a"),
        ("user.x", "a"),
        ("userx", "A"),
        ("z", "A"),
    ]
    .map(|(entity_type, name)| id(entity_type, name))
    .to_vec()
}

pub async fn features_come_in_byte_order(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let filter = FeatureFilter::default();
    assert!(walk(&*store, &filter, 10).await.is_empty());
    let mut ids = ordered();
    let expected: Vec<_> = ids.iter().map(ToString::to_string).collect();
    ids.reverse();
    ids.rotate_left(7);
    create_all(&*store, &ids).await;
    assert_eq!(walk(&*store, &filter, 1_000).await, expected);
    let defined = store.definitions().await.unwrap().features;
    assert_eq!(defined.iter().map(|feature| feature.id.to_string()).collect::<Vec<_>>(), expected);
}

pub async fn pages_are_exact(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let ids = ordered();
    create_all(&*store, &ids).await;
    let filter = FeatureFilter::default();
    let expected: Vec<_> = ids.iter().map(ToString::to_string).collect();
    for size in [1, 2, 7, ids.len() - 1, ids.len(), ids.len() + 1] {
        assert_eq!(walk(&*store, &filter, size).await, expected, "pages of {size}");
    }
    for (place, after) in ids.iter().enumerate() {
        let page = store.features(&filter, Some(after), page_size(3)).await.unwrap();
        let found: Vec<_> = page.entries.iter().map(|feature| &feature.id).collect();
        assert_eq!(found, ids[place + 1..].iter().take(3).collect::<Vec<_>>());
        assert_eq!(page.more, ids.len() > place + 4);
        for feature in &page.entries {
            assert_eq!(*feature, read(&*store, &feature.id).await);
        }
    }
    // `more` counts matches only.
    let users = FeatureFilter { entity_type: Some(id("user", "a").entity_type), ..FeatureFilter::default() };
    let page = store.features(&users, Some(&id("user", "a.b")), page_size(1)).await.unwrap();
    assert_eq!((page.entries[0].id.to_string().as_str(), page.more), ("user.aa", false));
}

pub async fn pages_are_correct_while_features_change(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let numbered = |n: usize| id("user", &format!("f{n:02}"));
    create_all(&*store, &(0..20).map(numbered).collect::<Vec<_>>()).await;
    let filter = FeatureFilter::default();
    let page = store.features(&filter, None, page_size(10)).await.unwrap();
    let last = page.entries.last().unwrap().id.clone();
    assert_eq!(last, numbered(9));
    // The last definition of the page is deleted, as are some before and after; some are created.
    for n in [0, 9, 10, 15] {
        store.delete_feature(&numbered(n), ANY, by("deleter")).await.unwrap();
    }
    create_all(&*store, &[id("user", "f05x"), id("user", "f11x")]).await;
    let page = store.features(&filter, Some(&last), page_size(100)).await.unwrap();
    let found: Vec<_> = page.entries.iter().map(|feature| feature.id.name.as_str()).collect();
    assert_eq!(found, ["f11", "f11x", "f12", "f13", "f14", "f16", "f17", "f18", "f19"]);
}

pub async fn the_filter_accepts_an_entity_type(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    create_all(&*store, &ordered()).await;
    for entity_type in ["user", "User", "user-x", "z", "nobody"] {
        let filter = FeatureFilter { entity_type: Some(id(entity_type, "a").entity_type), ..FeatureFilter::default() };
        let expected: Vec<_> =
            ordered().iter().filter(|id| id.entity_type.as_str() == entity_type).map(ToString::to_string).collect();
        assert_eq!(walk(&*store, &filter, 2).await, expected, "{entity_type}");
    }
    let both =
        FeatureFilter { entity_type: Some(id("user", "a").entity_type), text: Some("a.".to_owned()), of_bags: false };
    assert_eq!(walk(&*store, &both, 2).await, ["user.a.b"]);
}

async fn create_described(store: &dyn MetadataStore, name: &str, described: &str, owned: &str) {
    let new = NewFeature { description: description(described), owner: owner(owned), ..new_feature(&id("user", name)) };
    store.create_feature(new, by("creator")).await.unwrap();
}

pub async fn the_filter_takes_its_text_literally(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let descriptions = [
        ("percent", "100% of it"),
        ("underscore", "a_b"),
        ("backslash", r"a\b"),
        ("quote", "it's \"so\""),
        ("star", "a*b?"),
        ("regex", "^a.b$[c](d)+"),
        ("plain", "axb"),
        ("both", r"\%"),
        ("spaces", "  "),
    ];
    for (name, text) in descriptions {
        create_described(&*store, name, text, "").await;
    }
    for (part, expected) in [
        ("%", vec!["user.both", "user.percent"]),
        ("0%", vec!["user.percent"]),
        ("%%", vec![]),
        ("_", vec!["user.underscore"]),
        ("a_b", vec!["user.underscore"]),
        ("a%b", vec![]),
        (r"\", vec!["user.backslash", "user.both"]),
        (r"\%", vec!["user.both"]),
        (r"\\", vec![]),
        ("'", vec!["user.quote"]),
        ("*", vec!["user.star"]),
        ("a.b", vec!["user.regex"]),
        ("[c]", vec!["user.regex"]),
        ("  ", vec!["user.spaces"]),
        ("nowhere", vec![]),
    ] {
        assert_eq!(walk(&*store, &text(part), 1).await, expected, "{part:?}");
    }
    assert_eq!(walk(&*store, &text(""), 4).await.len(), descriptions.len(), "the empty text is in every text");
}

pub async fn the_filter_searches_name_description_and_owner(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    create_described(&*store, "needle-1", "", "").await;
    create_described(&*store, "b", "a needle in hay", "").await;
    create_described(&*store, "c", "", "needle-team").await;
    create_described(&*store, "d", "nee", "dle").await;
    let labelled = NewFeature { labels: labels(&[("needle", "needle")]), ..new_feature(&id("needle", "e")) };
    store.create_feature(labelled, by("needle")).await.unwrap();
    store.create_version(&id("user", "d"), new_version("needle"), by("needle")).await.unwrap();
    assert_eq!(walk(&*store, &text("needle"), 10).await, ["user.b", "user.c", "user.needle-1"]);
}

pub async fn the_filter_ignores_the_case_of_ascii(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    create_described(&*store, "MiXed", "", "").await;
    create_described(&*store, "b", "", "mIxEd").await;
    create_described(&*store, "accented", "ÉTÉ", "").await;
    for part in ["mixed", "MIXED", "Mixed"] {
        assert_eq!(walk(&*store, &text(part), 10).await, ["user.MiXed", "user.b"], "{part}");
    }
    for (part, found) in [("ÉTÉ", 1), ("ÉtÉ", 1), ("été", 0)] {
        assert_eq!(walk(&*store, &text(part), 10).await.len(), found, "{part}: only ASCII has no case");
    }
}
