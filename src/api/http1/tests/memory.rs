//! The memory of bodies and answers.

use super::*;
use crate::access::{Holder, Share};

/// Takes the budget except for this many bytes.
fn all_but(shared: &Shared, bytes: usize) -> Share {
    let mut others = Share::new(Arc::clone(&shared.budget), Holder::Anyone);
    others.hold_anyway(BUDGET_BYTES - bytes);
    others
}

#[test]
fn a_body_without_room_is_refused_before_it_is_requested() {
    let (shared, recorder) = (shared(), Recorder::default());
    *recorder.caller.borrow_mut() = Some(Principal::Anonymous);
    let others = all_but(&shared, 5_000);
    let head = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\nExpect: 100-continue\r\n\r\n";
    assert_eq!(statuses(&shared, &recorder, head.as_bytes()), ["413"]);
    assert_eq!((recorder.incomplete.get(), shared.budget.used()), (1, BUDGET_BYTES - 5_000));
    drop(others);
    assert_eq!(statuses(&shared, &recorder, &[head.as_bytes(), &[b'x'; 9_000]].concat()), ["200"]);
    assert_eq!(shared.budget.used(), 0);
}

/// The server sends an existing answer without room for it, and counts its bytes until then.
#[test]
fn an_answer_is_counted_until_it_is_read() {
    let (shared, recorder) = (shared(), Recorder::default());
    *recorder.caller.borrow_mut() = Some(Principal::Anonymous);
    let others = all_but(&shared, 100_000);
    let (near, far) = duplex(64 << 10);
    block_on(async {
        let asking = async {
            let (mut from, mut to) = tokio::io::split(near);
            to.write_all(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let mut some = [0; 1_000];
            from.read_exact(&mut some).await.unwrap();
            assert!(shared.budget.used() > BUDGET_BYTES + (3 << 20), "{}", shared.budget.used());
            to.shutdown().await.unwrap();
            from.read_to_end(&mut Vec::new()).await.unwrap();
        };
        tokio::join!(asking, serve(far, &CLIENT, &recorder, &shared, None, pending()))
    });
    assert_eq!(shared.budget.used(), BUDGET_BYTES - 100_000);
    drop(others);
    assert_eq!(shared.budget.used(), 0);
}
