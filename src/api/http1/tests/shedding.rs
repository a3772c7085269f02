//! Requests that have waited too long at a worker that is behind.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::*;

/// Bytes that arrived this many milliseconds ago, the first request's first, and the number of times that their age was
/// read.
struct Aged {
    stream: DuplexStream,
    ages_ms: &'static [u64],
    asked: Rc<Cell<usize>>,
}

impl Stream for Aged {
    fn since_last_arrival(&self) -> Option<Duration> {
        let asked = self.asked.replace(self.asked.get() + 1);
        Some(Duration::from_millis(self.ages_ms[asked]))
    }

    fn queued(&self) -> usize {
        0
    }
}

impl AsyncRead for Aged {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Aged {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

/// The statuses of the answers, and the number of requests whose age was read.
fn statuses_by_age(shared: &Shared, requests: &[&[u8]], ages_ms: &'static [u64]) -> (Vec<String>, usize) {
    let (recorder, asked, text) = (Recorder::default(), Rc::default(), requests.concat());
    let (near, stream) = duplex(64 << 10);
    let (far, pieces) = (Aged { stream, ages_ms, asked: Rc::clone(&asked) }, [&text[..]]);
    let (answers, ()) =
        block_on(async { tokio::join!(send(near, &pieces), serve(far, &CLIENT, &recorder, shared, None, pending())) });
    let answers = String::from_utf8_lossy(&answers);
    assert!(!answers.contains("connection: close"), "{answers}");
    (answers.split("HTTP/1.1 ").skip(1).map(|answer| answer[..3].to_owned()).collect(), asked.get())
}

#[test]
fn a_worker_that_is_behind_refuses_late_requests_except_health() {
    const HEALTH: &[u8] = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
    let shared = shared();
    let requests = [GET, HEALTH, GET, GET, GET, HEALTH];
    let ages_ms = &[60, 50, 10, 9_000];
    // No age is read while the worker is not behind.
    assert_eq!(statuses_by_age(&shared, &requests, &[]), (vec!["200".to_owned(); 6], 0));
    for _ in 0..2 {
        shared.shedding.note(Duration::from_secs(1), 1_000);
    }
    let (statuses, asked) = statuses_by_age(&shared, &requests, ages_ms);
    assert_eq!((&statuses[..], asked), (&["413", "200", "200", "200", "413", "200"].map(str::to_owned)[..], 4));
}

/// Otherwise clients that read no answers, or end each connection with one, would make a worker refuse without end.
#[test]
fn a_refusal_counts_even_if_it_is_unread_or_the_last() {
    for header in ["", "Connection: close\r\n"] {
        let (recorder, shared) = (Recorder::default(), shared());
        for _ in 0..2 {
            shared.shedding.note(Duration::from_secs(1), 1_000);
        }
        // There is no room for an answer.
        let (mut near, stream) = duplex(8);
        let far = Aged { stream, ages_ms: &[60], asked: Rc::default() };
        block_on(async {
            let asking = async {
                near.write_all(format!("GET /slow HTTP/1.1\r\nHost: x\r\n{header}\r\n").as_bytes()).await.unwrap();
                sleep(SLOW * 2).await;
            };
            assert!(shared.shedding.refuses(Some(Duration::from_millis(60))).is_some());
            tokio::select! {
                () = serve(far, &CLIENT, &recorder, &shared, None, pending()) => unreachable!("it is not taken"),
                () = asking => {}
            }
            assert_eq!(recorder.refused_by_head.get(), 1);
            assert!(shared.shedding.refuses(Some(Duration::from_millis(60))).is_none(), "{header}");
        });
    }
}
