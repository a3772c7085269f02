//! Compares the loop with hyper. For any stream of bytes, with any cuts, both must read the same requests with the same
//! bodies. Ours may refuse where hyper continues, because it reads more strictly. But it must never read another
//! request, or one where hyper has stopped.

use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;

use super::*;

fn hypers(pieces: &[&[u8]]) -> Vec<Seen> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (near, far) = duplex(64 << 10);
    let service = hyper::service::service_fn(|request: hyper::Request<hyper::body::Incoming>| {
        let seen = Rc::clone(&seen);
        async move {
            // A target with only a host, as in `CONNECT`, has no path.
            let target = request.uri().path_and_query().map_or_else(|| request.uri().to_string(), ToString::to_string);
            let method = request.method().to_string();
            let body = request.into_body().collect().await?.to_bytes().to_vec();
            seen.borrow_mut().push(Seen { method, target, body });
            Ok::<_, hyper::Error>(hyper::Response::new(String::new()))
        }
    });
    let serving =
        hyper::server::conn::http1::Builder::new().half_close(true).serve_connection(TokioIo::new(far), service);
    // Its end is one of its answers.
    block_on(async { tokio::join!(send(near, pieces), serving) }).1.unwrap_or_default();
    seen.take()
}

/// Cuts a text at these places.
fn cut<'t>(text: &'t [u8], places: &[prop::sample::Index]) -> Vec<&'t [u8]> {
    let mut places: Vec<_> = places.iter().map(|place| place.index(text.len() + 1)).collect();
    places.sort_unstable();
    let mut pieces = Vec::new();
    let mut begin = 0;
    for place in places {
        pieces.push(&text[begin..place]);
        begin = place;
    }
    pieces.push(&text[begin..]);
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// A body with the lines of the head that frame it.
fn framed() -> impl Strategy<Value = (String, Vec<u8>)> {
    let body = prop::collection::vec(prop::sample::select(b"abc\r\n:; 0GET/HTP1.".to_vec()), 0..60);
    let chunks = prop::collection::vec((body.clone(), prop::sample::select(vec!["", ";a=b", ";x"])), 0..4);
    let trailers = prop::sample::select(vec!["", "X-Sum: 1\r\n", "Content-Length: 9\r\nHost: y\r\n"]);
    prop_oneof![
        Just((String::new(), Vec::new())),
        body.prop_map(|body| (format!("Content-Length: {}\r\n", body.len()), body)),
        (chunks, trailers, any::<bool>()).prop_map(|(chunks, trailers, expects)| {
            let mut text = Vec::new();
            for (chunk, extension) in chunks.iter().filter(|(chunk, _)| !chunk.is_empty()) {
                text.extend_from_slice(format!("{:X}{extension}\r\n", chunk.len()).as_bytes());
                text.extend_from_slice(chunk);
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(format!("0\r\n{trailers}\r\n").as_bytes());
            let expects = if expects { "Expect: 100-continue\r\n" } else { "" };
            (format!("{expects}Transfer-Encoding: chunked\r\n"), text)
        }),
    ]
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let method = prop::sample::select(vec!["GET", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS", "BREW"]);
    let target = prop::sample::select(vec!["/", "/v1/lists/a/b/c/items?limit=1", "http://x/y?z", "/a%20b"]);
    let version = prop::sample::select(vec!["1.1", "1.1", "1.1", "1.1", "1.0"]);
    let line = prop::sample::select(vec![
        "",
        "",
        "",
        "X-A:b \r\n",
        "Accept: */*\r\n",
        "Connection: keep-alive\r\n",
        "Connection: close\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket\r\n",
        "TE: trailers\r\n",
    ]);
    let empty_line = prop::sample::select(vec!["", "", "\r\n"]);
    (method, target, version, line, framed(), empty_line).prop_map(
        |(method, target, version, line, (framing, body), empty_line)| {
            // Older clients do not support chunks.
            let version = if framing.contains("chunked") { "1.1" } else { version };
            let head = format!("{empty_line}{method} {target} HTTP/{version}\r\nHost: x\r\n{line}{framing}\r\n");
            [head.as_bytes(), &body].concat()
        },
    )
}

/// Changes of a few bytes.
fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8, Vec<u8>)>> {
    let text = prop::sample::select(vec![
        &b""[..],
        b"\r",
        b"\n",
        b"\r\n",
        b"\0",
        b" ",
        b"\t",
        b":",
        b",",
        b";",
        b"0",
        b"1",
        b"f",
        b"-",
        b"+",
        b"x",
        b"\xff",
        b"\r\nContent-Length: 3",
        b"\r\nTransfer-Encoding: chunked",
        b"\r\nTransfer-Encoding: identity",
        b"\r\n folded",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ]);
    prop::collection::vec((any::<prop::sample::Index>(), 0..3_u8, text.prop_map(<[u8]>::to_vec)), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn well_formed_requests_are_read_as_hyper_reads_them(
        requests in prop::collection::vec(request(), 1..5),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let text = requests.concat();
        let pieces = cut(&text, &places);
        let (_, recorder) = ours(&pieces);
        prop_assert_eq!(recorder.refused.get(), None);
        prop_assert_eq!(&*recorder.seen.borrow(), &hypers(&pieces));
    }

    #[test]
    fn a_malformed_request_is_never_read_as_another_request(
        requests in prop::collection::vec(request(), 1..4),
        changes in changes(),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let mut text = requests.concat();
        for (place, removed, inserted) in changes {
            let begin = place.index(text.len() + 1);
            let end = text.len().min(begin + usize::from(removed));
            text.splice(begin..end, inserted);
        }
        let pieces = cut(&text, &places);
        let (_, recorder) = ours(&pieces);
        let (ours, hypers) = (recorder.seen.borrow(), hypers(&pieces));
        prop_assert!(hypers.starts_with(&ours), "ours {:?}, hyper's {:?}", ours, hypers);
    }

    #[test]
    fn cuts_of_a_stream_make_no_difference(
        requests in prop::collection::vec(request(), 1..4),
        changes in changes(),
        places in prop::collection::vec(any::<prop::sample::Index>(), 1..8),
    ) {
        let mut text = requests.concat();
        for (place, removed, inserted) in changes {
            let begin = place.index(text.len() + 1);
            let end = text.len().min(begin + usize::from(removed));
            text.splice(begin..end, inserted);
        }
        let (_, whole) = ours(&[&text]);
        let (_, in_pieces) = ours(&cut(&text, &places));
        prop_assert_eq!(&*whole.seen.borrow(), &*in_pieces.seen.borrow());
        // An endless head is checked line by line, so a mistake in its last line may stay unnoticed until the stream
        // ends. But no cut makes a request invalid.
        prop_assert!(in_pieces.refused.get().is_none() || whole.refused.get().is_some());
    }
}

#[test]
fn hyper_reads_an_unambiguous_stream_completely() {
    // The oracle reads the same as the recorder, for an unambiguous stream.
    let text = [GET, b"POST /b?c HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", GET].concat();
    let seen = hypers(&[&text]);
    assert_eq!(seen.len(), 3);
    assert_eq!((seen[1].target.as_str(), &seen[1].body[..]), ("/b?c", &b"abc"[..]));
}
