//! A cluster that is down, hangs, and returns; and one that requires a login.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use liststore::domain::SystemClock;
use liststore::items::cql::{
    ClientCertificate, CqlOptions, CqlStore, CqlTls, Credentials, OpenError, Password, inspect, migrate,
};
use liststore::items::{ItemStore, StoreError};
use prometheus::Registry;

use crate::cassandra::{self, Cluster};
use crate::ports::free_port;
use crate::probe::{Server, fresh_list, now};

fn store(options: CqlOptions) -> CqlStore {
    CqlStore::open(options, Arc::new(SystemClock), &Registry::new()).unwrap()
}

async fn session_error(options: &CqlOptions) -> String {
    match store(options.clone()).open_session().await.map(|_| ()) {
        Err(StoreError::Unavailable { reason, outcome_unknown: false }) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_store_opens_without_a_cluster() {
    let free = format!("127.0.0.1:{}", free_port(Ipv4Addr::LOCALHOST));
    let options = cassandra::options(vec![free], 1);
    assert!(session_error(&options).await.contains("connection refused"));
    let options = cassandra::options(vec!["no-such-host.invalid:9042".into()], 1);
    let reason = session_error(&options).await;
    assert!(reason.contains("no-such-host.invalid") && reason.contains("items.cql.contact_points"), "{reason}");
}

#[tokio::test]
async fn a_contact_point_of_another_protocol_is_reported() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = cassandra::options(vec![listener.local_addr().unwrap().to_string()], 1);
    // Another server, such as HTTP: it answers in its own protocol and closes.
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            use tokio::io::AsyncWriteExt;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").await;
        }
    });
    let reason = session_error(&options).await;
    assert!(reason.contains("CQL") || reason.contains("closed the connection"), "{reason}");
}

#[tokio::test]
async fn tls_files_that_cannot_be_used_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty.pem");
    std::fs::write(&empty, "nothing").unwrap();
    for ca_file in [dir.path().join("missing.pem"), empty] {
        let tls = Some(CqlTls { ca_file: ca_file.clone(), server_names: vec![], client: None });
        let options = CqlOptions { tls, ..cassandra::options(vec!["127.0.0.1:9042".into()], 1) };
        match CqlStore::open(options, Arc::new(SystemClock), &Registry::new()).map(|_| ()) {
            Err(OpenError::TlsFile(problem)) => assert_eq!(problem.path, ca_file),
            other => panic!("{other:?}"),
        }
    }
}

/// Tries until it succeeds, or fails after a while.
async fn eventually<T, E: std::fmt::Debug>(what: &str, mut attempt: impl AsyncFnMut() -> Result<T, E>) -> T {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        match attempt().await {
            Ok(done) => return done,
            Err(error) if Instant::now() > patience => panic!("{what}: {error:?}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// All nodes gone, and all nodes frozen: the errors, the duration of operations, and the counts. During an outage, no
/// operation may hold a permit for half a second.
#[tokio::test]
async fn without_any_node_operations_are_refused_at_once_until_one_returns() {
    use scylla_proxy::{Condition, Reaction, RequestOpcode, RequestReaction, RequestRule};
    let statements =
        Condition::RequestOpcode(RequestOpcode::Execute).or(Condition::RequestOpcode(RequestOpcode::Batch));
    for (case, rule) in [
        ("gone", RequestRule(Condition::True, RequestReaction::drop_connection())),
        // Its connections live, and no statement is answered.
        ("frozen", RequestRule(statements, RequestReaction::drop_frame())),
    ] {
        let mut forger = crate::forger::Forger::start().await;
        let server = Server { deadline: Duration::from_millis(1_000), ..Server::open(forger.options.clone()).await };
        let another = server.another_session().await;
        let list = fresh_list();
        server.add(&list, &[(now(), b"kept")]).await;
        assert_eq!(server.store.warning(), None, "{case}");
        assert_eq!(server.metric("liststore_cql_connections", ""), 2.0, "{case}");
        assert_eq!(server.metric("liststore_cql_nodes_reached", ""), 1.0, "{case}");

        forger.on_requests(vec![rule]);
        let quick = eventually(case, async || {
            let (began, op) = (Instant::now(), server.op());
            let (one, other) = tokio::join!(
                server.session.get(&op, &list, &crate::probe::EVERYTHING),
                another.session.get(&op, &list, &crate::probe::EVERYTHING)
            );
            match (one, other) {
                (Err(StoreError::Unavailable { reason, outcome_unknown: false }), Err(_))
                    if reason.contains("is reachable") && began.elapsed() < Duration::from_millis(500) =>
                {
                    Ok(reason)
                }
                other => Err(other),
            }
        })
        .await;
        assert!(server.metric("liststore_cql_refused_total", "") >= 1.0, "{case}");
        let warning = server.store.warning().unwrap();
        assert!(warning.contains("none of the cluster's 1 nodes is reachable"), "{case}: {warning}");
        assert_eq!(server.metric("liststore_cql_nodes_reached", ""), 0.0, "{case}: {quick}");
        if case == "gone" {
            assert_eq!(server.metric("liststore_cql_connections", ""), 0.0);
        }
        let began = Instant::now();
        let mut refused = 0;
        for _ in 0..10 {
            refused += u32::from(server.try_add(&list, &server.op(), &[(now(), b"never")]).await.is_err());
        }
        assert_eq!(refused, 10, "{case}");
        if case == "gone" {
            assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        }

        forger.heal();
        let page =
            eventually(case, async || server.session.get(&server.op(), &list, &crate::probe::EVERYTHING).await).await;
        assert!(page.items.iter().any(|item| item.value[..] == b"kept"[..]), "{case}");
        eventually(case, async || {
            let _ = another.session.get(&another.op(), &list, &crate::probe::EVERYTHING).await;
            server.store.warning().map_or(Ok(()), Err)
        })
        .await;
    }
}

/// The server detects that a silent node is well again without any request, and no operation is delayed for that.
#[tokio::test]
async fn a_silent_node_that_answers_again_is_found_without_any_operation() {
    use scylla_proxy::{Condition, Reaction, RequestOpcode, RequestReaction, RequestRule};
    let mut forger = crate::forger::Forger::start().await;
    let server = Server { deadline: Duration::from_millis(600), ..Server::open(forger.options.clone()).await };
    let list = fresh_list();
    server.add(&list, &[(now(), b"v")]).await;
    let statements = Condition::RequestOpcode(RequestOpcode::Execute);
    forger.on_requests(vec![RequestRule(statements, RequestReaction::drop_frame())]);
    eventually("it is found silent", async || {
        let _ = server.session.get(&server.op(), &list, &crate::probe::EVERYTHING).await;
        server.store.warning().filter(|warning| warning.contains("does not respond")).ok_or(())
    })
    .await;
    eventually("operations are refused", async || {
        match server.session.get(&server.op(), &list, &crate::probe::EVERYTHING).await {
            Err(StoreError::Unavailable { .. }) => Ok(()),
            other => Err(other),
        }
    })
    .await;
    // None is let through to find out: all are refused, and at once.
    let requests = server.metric("liststore_cql_request_duration_seconds", "get");
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        let refused = server.session.get(&server.op(), &list, &crate::probe::EVERYTHING).await;
        assert!(matches!(refused, Err(StoreError::Unavailable { outcome_unknown: false, .. })), "{refused:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.metric("liststore_cql_request_duration_seconds", "get"), requests);
    forger.heal();
    eventually("it is well", async || server.store.warning().map_or(Ok(()), Err)).await;
    assert_eq!(server.values(&list).await, [b"v"]);
}

#[tokio::test]
async fn a_session_outlives_its_only_node() {
    let _turn = cassandra::turn().await;
    let cluster = Cluster::start(&["--durable"]);
    let options = cassandra::options(cluster.contact_points.clone(), 1);
    migrate(&options, false).await.unwrap();
    let server = Server { deadline: Duration::from_secs(2), ..Server::open(options.clone()).await };
    let list = fresh_list();
    server.add(&list, &[(now(), b"before")]).await;

    // It hangs: operations end at their deadline, and the node is used again once it answers.
    cluster.pause(1);
    let began = Instant::now();
    let failed = server.try_add(&list, &server.op(), &[(now(), b"meanwhile")]).await.unwrap_err();
    assert!(matches!(failed, StoreError::Timeout { outcome_unknown: true }), "{failed:?}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    cluster.resume(1);
    eventually("after a pause", async || server.session.get(&server.op(), &list, &crate::probe::EVERYTHING).await)
        .await;

    // It dies: operations fail at once, and nothing acknowledged is gone when it is back.
    server.add(&list, &[(now(), b"last")]).await;
    cluster.kill(1);
    let began = Instant::now();
    let failed = server.try_add(&list, &server.op(), &[(now(), b"never")]).await.unwrap_err();
    assert!(matches!(failed, StoreError::Unavailable { .. }), "{failed:?}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(session_error(&options).await.contains("connection refused"));
    cluster.start_node(1);
    let page = eventually("after a restart", async || {
        server.session.get(&server.op(), &list, &crate::probe::EVERYTHING).await
    })
    .await;
    let values: Vec<_> = page.items.iter().map(|item| item.value.to_vec()).collect();
    assert!(values.contains(&b"before".to_vec()) && values.contains(&b"last".to_vec()), "{values:?}");
    server.add(&list, &[(now(), b"after")]).await;
}

#[tokio::test]
async fn a_cluster_with_logins_and_tls_accepts_valid_credentials() {
    let _turn = cassandra::turn().await;
    let certificates = tempfile::tempdir().unwrap();
    let dir = certificates.path();
    let cluster = Cluster::start(&["--auth", "--tls", dir.to_str().unwrap()]);
    let login =
        |password: &str| Some(Credentials { username: "cassandra".into(), password: Password::Given(password.into()) });
    let file = |name: &str| dir.join(name);
    let client = Some(ClientCertificate { cert_file: file("client.pem"), key_file: file("client-key.pem") });
    let tls = CqlTls { ca_file: file("ca.pem"), server_names: vec![], client };
    let options = CqlOptions {
        credentials: login("cassandra"),
        tls: Some(tls.clone()),
        ..cassandra::options(cluster.contact_points.clone(), 1)
    };
    migrate(&options, false).await.unwrap();
    let server = Server::open(options.clone()).await;
    let list = fresh_list();
    server.add(&list, &[(now(), b"v")]).await;
    assert_eq!(server.remove(&list, b"v").await, 1);
    assert!(inspect(&options).await.unwrap().problems.is_empty());

    let wrong = session_error(&CqlOptions { credentials: login("wrong-secret"), ..options.clone() }).await;
    assert!(wrong.contains("items.cql.username") && wrong.contains("refuses"), "{wrong}");
    assert!(!wrong.contains("wrong-secret"));
    let secret = dir.join("password");
    let by_file = Some(Credentials { username: "cassandra".into(), password: Password::File(secret.clone()) });
    let by_file = CqlOptions { credentials: by_file, ..options.clone() };
    assert!(session_error(&by_file).await.contains("items.cql.password_file"));
    std::fs::write(&secret, "wrong-secret\n").unwrap();
    let store = CqlStore::open(by_file, Arc::new(SystemClock), &Registry::new()).unwrap();
    let refused = store.open_session().await.map(|_| ());
    assert!(
        matches!(&refused, Err(StoreError::Unavailable { reason, .. }) if reason.contains("refuses")),
        "{refused:?}"
    );
    std::fs::write(&secret, "cassandra\n").unwrap();
    assert!(store.open_session().await.is_ok(), "the password was read again");
    let anonymous = session_error(&CqlOptions { credentials: None, ..options.clone() }).await;
    assert!(anonymous.contains("requires a login"), "{anonymous}");
    let plain = session_error(&CqlOptions { tls: None, ..options.clone() }).await;
    assert!(plain.contains("items.cql.tls.ca_file"), "{plain}");
    let nameless = Some(CqlTls { client: None, ..tls.clone() });
    let nameless = session_error(&CqlOptions { tls: nameless, ..options.clone() }).await;
    assert!(nameless.contains("cert_file"), "{nameless}");
    // The client's certificate is not an authority of the node's.
    let stranger = Some(CqlTls { ca_file: file("client.pem"), ..tls });
    let stranger = session_error(&CqlOptions { tls: stranger, ..options.clone() }).await;
    assert!(stranger.contains("items.cql.tls.ca_file"), "{stranger}");
}
