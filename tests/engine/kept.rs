//! Rendered pages that are kept beside heads: served for as long as they are the answer, and not a
//! moment longer.

use liststore::items::embedded::Fsync;
use liststore::items::{ItemStore, Operation, Peeked, Provenance, Range, RenderedPage};

use crate::harness::{Opened, SECOND, START, item, list, newest, open, operation, runtime, small_options};
use crate::sim_disk::SimDisk;

fn text() -> RenderedPage {
    RenderedPage { text: "as it was rendered".into(), items: 3 }
}

fn is_kept(opened: &Opened, op: &Operation, range: &Range) -> bool {
    match opened.store.peek(op, &list(0), range, true) {
        Some(Peeked::Rendered(kept)) => {
            assert_eq!(kept, text());
            // Who cannot use it is not given it.
            assert!(matches!(opened.store.peek(op, &list(0), range, false), Some(Peeked::Page(..))));
            true
        }
        _ => false,
    }
}

fn provenance(opened: &Opened, op: &Operation, range: &Range) -> Provenance {
    let Some(Peeked::Page(_, from)) = opened.store.peek(op, &list(0), range, false) else {
        panic!("the head is not in memory");
    };
    from
}

/// Reads the list's head into memory, and keeps what a get of it is rendered to.
async fn keep(opened: &Opened, op: &Operation, range: &Range) {
    opened.session.get(op, &list(0), range).await.unwrap();
    let from = provenance(opened, op, range);
    opened.store.keep(op, &list(0), range, from, &text());
}

/// Ten items a second apart, the newest of the present, which live for 100 s.
async fn ten_items() -> Opened {
    let opened = open(&SimDisk::default(), small_options(Fsync::Group)).await;
    let items = (0..10).map(|i| item(START - i * SECOND, &[i as u8], 100)).collect();
    opened.session.add(&operation(START, 100), &list(0), items).await.unwrap();
    opened
}

#[test]
fn a_page_is_kept_for_gets_like_the_first() {
    runtime().block_on(async {
        let opened = ten_items().await;
        let op = operation(START, 100);
        keep(&opened, &op, &newest(3)).await;
        assert!(is_kept(&opened, &op, &newest(3)));
        assert!(is_kept(&opened, &operation(START + SECOND, 100), &newest(3)));
        assert!(!is_kept(&opened, &op, &newest(4)), "another limit");
        assert!(!is_kept(&opened, &operation(START, 99), &newest(3)), "another TTL");
        let bounded = Range { min_timestamp: op.now, ..newest(3) };
        assert!(!is_kept(&opened, &op, &bounded), "other bounds");
        // A clock that was stepped back may see what had expired when the page was read.
        assert!(!is_kept(&opened, &operation(START - 1, 100), &newest(3)));
    });
}

#[test]
fn a_page_is_kept_until_an_item_that_it_depends_on_expires() {
    runtime().block_on(async {
        let opened = ten_items().await;
        keep(&opened, &operation(START, 100), &newest(3)).await;
        // The fourth item, 3 s older than the newest, is why more follows.
        let last = START + 97 * SECOND - 1;
        assert!(is_kept(&opened, &operation(last, 100), &newest(3)));
        assert!(!is_kept(&opened, &operation(last + 1, 100), &newest(3)));
        // With a TTL that was shortened since, that is sooner.
        keep(&opened, &operation(START, 20), &newest(3)).await;
        assert!(is_kept(&opened, &operation(START + 17 * SECOND - 1, 20), &newest(3)));
        assert!(!is_kept(&opened, &operation(START + 17 * SECOND, 20), &newest(3)));
    });
}

#[test]
fn a_change_of_the_list_ends_what_was_kept_of_it() {
    runtime().block_on(async {
        let opened = ten_items().await;
        let op = operation(START, 100);
        let range = newest(3);
        keep(&opened, &op, &range).await;
        opened.session.add(&op, &list(0), vec![item(START + 1, b"new", 100)]).await.unwrap();
        assert!(!is_kept(&opened, &op, &range));
        keep(&opened, &op, &range).await;
        opened.session.remove_value(&op, &list(0), b"new").await.unwrap();
        assert!(!is_kept(&opened, &op, &range));
        keep(&opened, &op, &range).await;
        opened.session.remove_all(&op, &list(0)).await.unwrap();
        assert!(!is_kept(&opened, &op, &range));
    });
}

#[test]
fn what_was_rendered_of_an_older_state_is_not_kept() {
    runtime().block_on(async {
        let opened = ten_items().await;
        let (op, range) = (operation(START, 100), newest(3));
        opened.session.get(&op, &list(0), &range).await.unwrap();
        let from = provenance(&opened, &op, &range);
        opened.session.add(&op, &list(0), vec![item(START + 1, b"new", 100)]).await.unwrap();
        opened.store.keep(&op, &list(0), &range, from, &text());
        assert!(!is_kept(&opened, &op, &range));
    });
}
