//! Connections that take turns, and those that make room for others.

use tokio::net::TcpStream;

use super::*;

#[test]
fn a_client_with_endless_requests_leaves_others_their_turn() {
    let shared = shared();
    let (pipelining, other) = (Recorder::default(), Recorder::default());
    let ((mut many, many_far), (mut one, one_far)) = (duplex(1 << 20), duplex(1 << 10));
    let others_turn = block_on(async {
        many.write_all(&GET.repeat(1_000)).await.unwrap();
        one.write_all(GET).await.unwrap();
        let turn = async {
            while other.seen.borrow().is_empty() {
                tokio::task::yield_now().await;
            }
            pipelining.seen.borrow().len()
        };
        tokio::select! {
            () = serve(many_far, &CLIENT, &pipelining, &shared, None, pending()) => unreachable!("it is not closed"),
            () = serve(one_far, &CLIENT, &other, &shared, None, pending()) => unreachable!("it is not closed"),
            turn = turn => turn,
        }
    });
    assert!(others_turn <= 2 * TURN_REQUESTS as usize, "after {others_turn} requests of the first");
}

/// Regardless of the number of connections, a caller with a key waits for few requests of strangers, and for few
/// documents.
#[test]
fn callers_with_a_key_go_before_anonymous_ones_and_documents() {
    const CONNECTIONS: usize = 60;
    const REQUESTS: usize = 40;
    const ASKED: usize = 20;
    for (path, is_known, is_ahead) in [
        ("/document", true, false),
        ("/document", false, false),
        ("/document", false, true),
        ("/list", false, false),
        ("/list", false, true),
        ("/health", false, false),
        ("/health", false, true),
    ] {
        let shared = shared();
        let (many, other) = (Recorder::default(), Recorder::default());
        *many.caller.borrow_mut() = is_known.then(known);
        *other.caller.borrow_mut() = Some(known());
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        let asking_without_end = async |mut near: DuplexStream| {
            let mut answers = [0; 4 << 10];
            loop {
                let text = if is_ahead { request.repeat(REQUESTS) } else { request.clone() };
                near.write_all(text.as_bytes()).await.unwrap();
                assert!(near.read(&mut answers).await.unwrap() > 0);
            }
        };
        let (mut near, far) = duplex(1 << 10);
        let asking = async {
            // Each of the other connections has its first answer.
            while many.seen.borrow().len() < CONNECTIONS {
                tokio::task::yield_now().await;
            }
            let before = many.seen.borrow().len();
            for _ in 0..ASKED {
                near.write_all(GET).await.unwrap();
                assert!(near.read(&mut [0; 1 << 10]).await.unwrap() > 0);
            }
            many.seen.borrow().len() - before
        };
        let went_before = block_on(async {
            let others = (0..CONNECTIONS).map(|_| duplex(64 << 10)).map(|(near, far)| {
                futures_util::future::join(
                    asking_without_end(near),
                    serve(far, &CLIENT, &many, &shared, None, pending()),
                )
            });
            tokio::select! {
                _ = futures_util::future::join_all(others) => unreachable!("they do not end"),
                () = serve(far, &CLIENT, &other, &shared, None, pending()) => unreachable!("it is not closed"),
                went_before = asking => went_before,
            }
        });
        assert!(went_before <= 4 * ASKED, "{went_before} for {path} {is_known} {is_ahead}");
    }
}

/// The kernel had the request, but the runtime was not notified yet. Closing reset the connection.
#[test]
fn a_request_that_arrives_while_its_connection_closes_is_answered() {
    for has_room in [false, true] {
        let (slots, recorder, shared) = (Slots::new(1), Recorder::default(), shared());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let text = runtime.block_on(async {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let mut near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (far, _) = listener.accept().unwrap();
            far.set_nonblocking(true).unwrap();
            let kernel = far.try_clone().unwrap();
            let slot = slots.enter().await.unwrap();
            let serving = serve(TcpStream::from_std(far).unwrap(), &CLIENT, &recorder, &shared, Some(&slot), pending());
            let asking = async {
                tokio::task::yield_now().await;
                io::Write::write_all(&mut near, GET).unwrap();
                while kernel.peek(&mut [0]).is_err() {
                    std::hint::spin_loop();
                }
                // Otherwise it would keep the connection open.
                drop(kernel);
                let other = slots.enter().await.unwrap();
                assert!(slot.is_leaving() && !other.is_spare());
                let other = Some(other).filter(|_| !has_room);
                near.set_nonblocking(true).unwrap();
                let mut answer = [0; 512];
                let bytes = TcpStream::from_std(near).unwrap().read(&mut answer).await.unwrap();
                drop(other);
                String::from_utf8_lossy(&answer[..bytes]).into_owned()
            };
            // In this order: the connection checks before the runtime is notified of the request.
            futures_util::future::join(asking, serving).await.0
        });
        let status = if has_room { "HTTP/1.1 200 OK" } else { "HTTP/1.1 413" };
        assert!(text.starts_with(status) && text.contains("connection: close") != has_room, "{text}");
        let counted = (recorder.seen.borrow().len(), recorder.refused_by_head.get());
        assert_eq!(counted, if has_room { (1, 0) } else { (0, 1) });
    }
}

/// Between two turns another connection may take the slot of an unknown caller, regardless of the number of requests.
#[test]
fn anonymous_callers_make_room_between_their_turns() {
    const REQUESTS: usize = 20;
    for (caller, leaves_after) in
        [(None, Some(1)), (Some(Principal::Anonymous), Some(TURN_REQUESTS as usize)), (Some(known()), None)]
    {
        let (slots, shared, recorder) = (Slots::new(1), shared(), Recorder::default());
        *recorder.caller.borrow_mut() = caller;
        let (mut near, far) = duplex(64 << 10);
        let took_its_place = block_on(async {
            near.write_all(&GET.repeat(REQUESTS)).await.unwrap();
            let slot = slots.enter().await.unwrap();
            let serving = serve(far, &CLIENT, &recorder, &shared, Some(&slot), pending());
            let entering = async {
                let other = slots.enter().await.unwrap();
                let took_its_place = !other.is_spare();
                near.shutdown().await.unwrap();
                near.read_to_end(&mut Vec::new()).await.unwrap();
                took_its_place
            };
            // In this order: the first turn is over.
            futures_util::future::join(serving, entering).await.1
        });
        assert_eq!(took_its_place, leaves_after.is_some());
        assert_eq!(recorder.seen.borrow().len(), leaves_after.unwrap_or(REQUESTS));
        assert_eq!(recorder.refused.take(), leaves_after.map(|_| Refusal::Overloaded));
    }
}

/// Another connection may take a stranger's slot in every wait. A known caller keeps its slot.
#[test]
fn an_anonymous_caller_makes_room_in_every_state() {
    for text in [
        &b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nsome"[..],
        b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nsome",
        b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n",
    ] {
        for (caller, leaves) in [(None, true), (Some(Principal::Anonymous), true), (Some(known()), false)] {
            let (slots, shared, recorder) = (Slots::new(1), shared(), Recorder::default());
            *recorder.caller.borrow_mut() = caller;
            let (mut near, far) = duplex(1 << 10);
            block_on(async {
                let slot = slots.enter().await.unwrap();
                let serving = async {
                    serve(far, &CLIENT, &recorder, &shared, Some(&slot), pending()).await;
                    slot.is_leaving()
                };
                let asking = async {
                    near.write_all(text).await.unwrap();
                    for _ in 0..10 {
                        tokio::task::yield_now().await;
                    }
                    let other = slots.enter().await.unwrap();
                    let took_its_place = !other.is_spare();
                    for _ in 0..10 {
                        tokio::task::yield_now().await;
                    }
                    drop(near);
                    took_its_place
                };
                assert_eq!(tokio::join!(serving, asking), (leaves, leaves), "{}", String::from_utf8_lossy(text));
            });
            assert_eq!(shared.budget.used(), 0);
        }
    }
}
