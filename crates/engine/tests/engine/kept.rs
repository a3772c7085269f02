//! The validity of a page that came from memory: exactly while it is the current answer.

use liststore::items::embedded::Fsync;
use liststore::items::{ItemPage, MemoryReads, OpContext, Range, Validity};

use crate::harness::{Opened, SECOND, START, item, list, newest, open, operation, runtime, small_options};
use crate::sim_disk::SimDisk;

/// Reads the list's head into memory, and a page from there.
async fn read(opened: &Opened, op: &OpContext, range: &Range) -> (ItemPage, Validity) {
    opened.session.get(op, &list(0), range).await.unwrap();
    let found = opened.store.get_from_memory(op, &list(0), range).expect("the head is not in memory");
    (found.page, found.validity.expect("nothing is written in between"))
}

fn holds(opened: &Opened, Validity { state, .. }: Validity) -> bool {
    opened.store.state(&list(0)) == Some(state)
}

/// Ten items a second apart, the newest at the current time, with a lifetime of 100 s.
async fn ten_items() -> Opened {
    let opened = open(&SimDisk::default(), small_options(Fsync::Group)).await;
    let items = (0..10).map(|i| item(START - i * SECOND, &[i as u8], 100)).collect();
    opened.session.add(&operation(START, 100), &list(0), items).await.unwrap();
    opened
}

#[test]
fn a_page_is_valid_until_an_item_of_it_expires() {
    runtime().block_on(async {
        let opened = ten_items().await;
        // The fourth item, 3 s older than the newest, is why more follows.
        let (page, validity) = read(&opened, &operation(START, 100), &newest(3)).await;
        assert!(page.more);
        assert_eq!((validity.from.as_nanos(), validity.until), (START, START + 97 * SECOND));
        // With a TTL that was shortened since, that is sooner.
        let (_, validity) = read(&opened, &operation(START, 20), &newest(3)).await;
        assert_eq!(validity.until, START + 17 * SECOND);
    });
}

#[test]
fn each_change_of_a_list_ends_its_state_and_reads_do_not() {
    runtime().block_on(async {
        let opened = ten_items().await;
        let (op, range) = (operation(START, 100), newest(3));
        let (_, before) = read(&opened, &op, &range).await;
        let (_, again) = read(&opened, &op, &range).await;
        assert_eq!(before, again);
        opened.session.add(&op, &list(1), vec![item(START, b"elsewhere", 100)]).await.unwrap();
        opened.store.flush().unwrap();
        opened.store.compact().unwrap();
        assert!(holds(&opened, before), "nothing was written to this list");

        opened.session.add(&op, &list(0), vec![item(START + 1, b"new", 100)]).await.unwrap();
        assert!(!holds(&opened, before));
        let (_, added) = read(&opened, &op, &range).await;
        opened.session.remove_value(&op, &list(0), b"new").await.unwrap();
        assert!(!holds(&opened, added));
        let (_, removed) = read(&opened, &op, &range).await;
        opened.session.remove_all(&op, &list(0)).await.unwrap();
        assert!(!holds(&opened, removed));
        // The same items are another state: its token was given before.
        assert!(!holds(&opened, before) && !holds(&opened, added));
    });
}
