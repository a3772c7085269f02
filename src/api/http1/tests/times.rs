//! The times of heads, bodies, answers and idle connections, and the order of their bytes.

use tokio::time::Instant;

use super::*;

#[test]
fn the_time_of_each_head_starts_with_its_first_byte() {
    let ((), recorder) = with_ours(|mut stream, recorder| async move {
        let mut answer = [0; 512];
        for round in 1..=3 {
            // Idle for longer than the time of a head.
            sleep(HEAD_TIMEOUT * u32::from(round > 1) * 3).await;
            for piece in GET.chunks(GET.len().div_ceil(4)) {
                stream.write_all(piece).await.unwrap();
                sleep(HEAD_TIMEOUT / 5).await;
            }
            assert!(stream.read(&mut answer).await.unwrap() > 0);
            assert_eq!(recorder.seen.borrow().len(), round);
        }
        let began = Instant::now();
        for byte in b"GET /a HTTP/1.1\r\nHost: x\r\nX-Slow: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy" {
            if stream.write_all(&[*byte]).await.is_err() {
                break;
            }
            sleep(HEAD_TIMEOUT / 20).await;
        }
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        assert!(rest.starts_with(b"HTTP/1.1 400 "), "the refusal of the recorder");
        assert!(began.elapsed() < HEAD_TIMEOUT * 5);
    });
    assert_eq!(recorder.refused.get(), Some(Refusal::HeadTimeout));
}

#[test]
fn an_idle_connection_is_kept_and_closes_silently() {
    let ((), recorder) = with_ours(|mut stream, _| async move {
        let (began, mut all) = (Instant::now(), Vec::new());
        stream.read_to_end(&mut all).await.unwrap();
        assert!(all.is_empty() && began.elapsed() >= KEEP_ALIVE && began.elapsed() < KEEP_ALIVE + LINGER);
    });
    assert_eq!(recorder.refused.get(), None);
    with_ours(|mut stream, _| async move {
        stream.write_all(GET).await.unwrap();
        let mut answer = [0; 512];
        assert!(stream.read(&mut answer).await.unwrap() > 0);
        let began = Instant::now();
        // Empty lines are not requests, and keep no connection open.
        let mut reported = Vec::new();
        while stream.write_all(b"\r\n").await.is_ok() && began.elapsed() < KEEP_ALIVE * 2 {
            sleep(Duration::from_secs(1)).await;
        }
        stream.read_to_end(&mut reported).await.unwrap();
        assert!(reported.is_empty() && began.elapsed() >= KEEP_ALIVE && began.elapsed() < KEEP_ALIVE + HEAD_TIMEOUT);
    });
}

#[test]
fn an_awaited_body_is_requested_once() {
    let (answers, recorder) = with_ours(|mut stream, _| async move {
        stream
            .write_all(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
            .await
            .unwrap();
        let mut word = [0; 25];
        stream.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"HTTP/1.1 100 Continue\r\n\r\n");
        send(stream, &[b"bo", b"dy"]).await
    });
    assert!(answers.starts_with(b"HTTP/1.1 200 OK\r\n"));
    assert_eq!(recorder.seen.borrow()[0].body, b"body");
    // Not if the body would not be read, or has arrived already.
    for text in [
        &b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nbody"[..],
        b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\nExpect: 100-continue\r\n\r\n",
        b"POST /a HTTP/1.0\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nbody",
    ] {
        let (answers, _) = ours(&[text]);
        assert!(!answers.starts_with(b"HTTP/1.1 100"), "{}", String::from_utf8_lossy(&answers));
    }
}

#[test]
fn answers_are_framed_for_the_version_of_the_client() {
    let get = |method: &str, path: &str, version: &str| {
        let text = format!("{method} {path} HTTP/{version}\r\nHost: x\r\n\r\n");
        let (answers, _) = ours(&[text.as_bytes()]);
        String::from_utf8(answers).unwrap()
    };
    let chunked = get("GET", "/stream", "1.1");
    assert!(chunked.contains("\r\ntransfer-encoding: chunked\r\n") && !chunked.contains("content-length"), "{chunked}");
    assert!(chunked.ends_with("\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"), "{chunked}");
    let old = get("GET", "/stream", "1.0");
    assert!(!old.contains("chunked") && old.contains("connection: close") && old.ends_with("\r\n\r\nonetwo"), "{old}");
    let head = get("HEAD", "/stream", "1.1");
    assert!(head.ends_with("\r\n\r\n") && head.contains("chunked"), "{head}");
    let head = get("HEAD", "/long", "1.1");
    assert!(head.ends_with("\r\n\r\n") && head.contains("\r\ncontent-length: 4194304\r\n"), "{head}");
    let broken = get("GET", "/broken", "1.1");
    assert!(!broken.ends_with("0\r\n\r\n"), "{broken}");
    let long = get("GET", "/long", "1.1");
    assert!(long.len() > 4 << 20 && long.ends_with("xxx"));
}

#[test]
fn an_unread_answer_ends_its_connection() {
    let (took, _) = with_ours(|mut stream, _| async move {
        stream.write_all(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let began = Instant::now();
        // A byte now and then does not extend the connection's time.
        let mut byte = [0];
        while stream.read(&mut byte).await.is_ok_and(|bytes| bytes > 0) && began.elapsed() < ANSWER_TIMEOUT * 2 {
            sleep(Duration::from_secs(1)).await;
            // Bytes sent before the connection ended remain readable.
            if stream.write_all(b"\r\n").await.is_err() {
                break;
            }
        }
        began.elapsed()
    });
    assert!(took >= ANSWER_TIMEOUT && took < ANSWER_TIMEOUT + Duration::from_secs(3), "{took:?}");
}

/// The refusal of a head comes before the body, and before `100 Continue`. The connection continues after a short body.
#[test]
fn a_refused_head_is_answered_before_its_body() {
    for (framing, stays_open) in [
        ("Content-Length: 9\r\n", true),
        ("Content-Length: 9\r\nExpect: 100-continue\r\n", false),
        ("Content-Length: 9999999\r\n", false),
        ("Transfer-Encoding: chunked\r\n", false),
    ] {
        let ((), recorder) = with_ours(|mut stream, _| async move {
            let head = format!("POST /refused HTTP/1.1\r\nHost: x\r\n{framing}\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = vec![0; 512];
            let bytes = stream.read(&mut answer).await.unwrap();
            let answer = String::from_utf8_lossy(&answer[..bytes]).into_owned();
            assert!(answer.starts_with("HTTP/1.1 413 "), "{framing}: {answer}");
            assert_eq!(answer.contains("connection: close"), !stays_open, "{framing}: {answer}");
            if stays_open {
                let answers = send(stream, &[&b"some body"[..], GET]).await;
                assert!(answers.starts_with(b"HTTP/1.1 200 "), "{framing}");
            }
        });
        assert_eq!((recorder.refused_by_head.get(), recorder.incomplete.get()), (1, 0), "{framing}");
    }
    // A body that has arrived is skipped, with any framing.
    let chunked = b"POST /refused HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let (shared, recorder) = (shared(), Recorder::default());
    assert_eq!(statuses(&shared, &recorder, &[&chunked[..], GET].concat()), ["413", "200"]);
    // A missing body ends its connection.
    let (took, _) = with_ours(|mut stream, _| async move {
        stream.write_all(b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n").await.unwrap();
        let (began, mut answers) = (Instant::now(), Vec::new());
        stream.read_to_end(&mut answers).await.unwrap();
        began.elapsed()
    });
    assert!(took <= LINGER * 3, "{took:?}");
}

/// Such clients send their whole input, end their side, and then wait.
#[test]
fn a_client_that_closes_its_side_after_complete_requests_is_answered() {
    let post = b"POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
    for (text, answered) in [
        ([&post[..], GET].concat(), 2),
        (b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n".repeat(20), 20),
        // Except an incomplete one.
        ([GET, &post[..post.len() - 1]].concat(), 1),
    ] {
        let (shared, recorder) = (shared(), Recorder::default());
        assert_eq!(statuses(&shared, &recorder, &text), vec!["200"; answered]);
        assert_eq!(recorder.seen.borrow().len(), answered);
    }
}
