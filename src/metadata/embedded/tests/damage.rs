//! Files with damage.

use super::*;

#[tokio::test]
async fn a_damaged_file_is_detected_or_reads_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(FILE_NAME);
    let store = open(dir.path()).unwrap();
    store.create_feature(new_feature(), context()).await.unwrap();
    for secs in 2..40 {
        set_ttl(&store, secs).await.unwrap();
    }
    assert!(matches!(verify(dir.path()), Err(OpenError::Locked { .. })));
    let truth = state_text(&store).await;
    drop(store);
    assert!(verify(tempfile::tempdir().unwrap().path()).unwrap().is_none());
    let whole = fs::read(&file).unwrap();
    let mut found_out = 0;
    for at in (0..whole.len()).step_by(2_039) {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        fs::write(&file, &bytes).unwrap();
        match verify(dir.path()) {
            Ok(found) => assert_eq!(found.map(|found| (found.features, found.changes)), Some((1, 39)), "byte {at}"),
            Err(OpenError::Damaged { path, .. } | OpenError::Foreign { path }) => {
                assert_eq!(path, file);
                found_out += 1;
            }
            Err(other) => panic!("byte {at}: {other}"),
        }
        assert_eq!(fs::read(&file).unwrap(), bytes, "looking has changed the file");
        if let Ok(reported) = opened_with(&bytes).await {
            assert_eq!(reported, truth, "byte {at}");
        }
    }
    assert!(found_out > 3, "{found_out}");
}

/// Two features, one of them deleted and created again, with some history. The last change affects the definition that
/// a reader would notice.
async fn change_much(store: &impl MetadataStore) {
    store.create_feature(new_feature(), context()).await.unwrap();
    for secs in 2..8 {
        set_ttl(store, secs).await.unwrap();
    }
    store.delete_feature(&id(), Precondition::None, context()).await.unwrap();
    store.create_feature(new_feature(), context()).await.unwrap();
    set_ttl(store, 77).await.unwrap();
}

/// All reports of a store after [`change_much`].
pub(super) async fn state_text(store: &impl MetadataStore) -> String {
    let history = store.history(&id(), None, Limit::of_page(1_000).unwrap()).await.unwrap().unwrap();
    let Definitions { revision, features, .. } = store.definitions().await.unwrap();
    format!("{revision:?} {features:?} {:?}", history.entries)
}

/// Opens a file with these bytes. Returns its content, or the reason of the refusal.
async fn opened_with(bytes: &[u8]) -> Result<String, String> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(FILE_NAME), bytes).unwrap();
    match open(dir.path()) {
        Ok(store) => Ok(state_text(&store).await),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains(FILE_NAME), "{text}");
            Err(text)
        }
    }
}

/// The files of a closed store and of a killed one.
async fn files() -> ([Vec<u8>; 2], String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(FILE_NAME);
    let store = open(dir.path()).unwrap();
    change_much(&store).await;
    store.settle().await.unwrap();
    let reported = state_text(&store).await;
    let killed = fs::read(&file).unwrap();
    drop(store);
    ([killed, fs::read(&file).unwrap()], reported)
}

/// redb verifies its checksums only when it repairs a file. So a flipped bit, for example in the generation of a
/// version, would have shown a list of another time.
#[tokio::test]
async fn damage_anywhere_is_refused_or_harmless() {
    let (files, truth) = files().await;
    for whole in files {
        assert_eq!(opened_with(&whole).await.unwrap(), truth);
        let used = (0..whole.len()).filter(|at| whole[*at] != 0);
        // The whole header, which names the last transaction, and a part of the rest, much of which is unused pages.
        let (header, rest): (Vec<usize>, Vec<usize>) = used.partition(|at| *at < 512);
        let mut refused = 0;
        for at in header.into_iter().chain(rest.into_iter().step_by(499)) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            match opened_with(&bytes).await {
                Ok(reported) => assert_eq!(reported, truth, "a bit of byte {at}"),
                Err(_) => refused += 1,
            }
        }
        for len in (1..whole.len()).step_by(4_096 * 7) {
            match opened_with(&whole[..len]).await {
                Ok(reported) => assert_eq!(reported, truth, "cut at {len}"),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 50, "{refused}");
    }
}
