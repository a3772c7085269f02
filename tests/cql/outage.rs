//! A cluster that is down, hangs, and comes back; and one that asks who we are.

use std::sync::Arc;
use std::time::{Duration, Instant};

use liststore::domain::SystemClock;
use liststore::items::cql::{
    ClientCertificate, CqlOptions, CqlStore, CqlTls, Credentials, OpenError, inspect, migrate,
};
use liststore::items::{ItemStore, StoreError};
use prometheus::Registry;

use crate::cassandra::{self, Cluster};
use crate::probe::{Server, fresh_list, now};

fn store(options: CqlOptions) -> CqlStore {
    CqlStore::open(options, Arc::new(SystemClock), &Registry::new()).unwrap()
}

async fn why_no_session(options: &CqlOptions) -> String {
    match store(options.clone()).open_session().await.map(|_| ()) {
        Err(StoreError::Unavailable { reason, outcome_unknown: false }) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_cluster_that_is_not_there_is_no_reason_not_to_open_the_store() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = cassandra::options(vec![free.to_string()], 1);
    assert!(why_no_session(&options).await.contains("connection refused"));
    let options = cassandra::options(vec!["no-such-host.invalid:9042".into()], 1);
    let reason = why_no_session(&options).await;
    assert!(reason.contains("no-such-host.invalid") && reason.contains("items.cql.contact_points"), "{reason}");
}

#[tokio::test]
async fn what_listens_there_may_speak_something_else() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = cassandra::options(vec![listener.local_addr().unwrap().to_string()], 1);
    // An HTTP server, say: it answers in its own way and closes.
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            use tokio::io::AsyncWriteExt;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").await;
        }
    });
    let reason = why_no_session(&options).await;
    assert!(reason.contains("CQL") || reason.contains("closed the connection"), "{reason}");
}

#[tokio::test]
async fn tls_files_that_cannot_be_used_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty.pem");
    std::fs::write(&empty, "nothing").unwrap();
    for ca_file in [dir.path().join("missing.pem"), empty] {
        let tls = Some(CqlTls { ca_file: ca_file.clone(), client: None });
        let options = CqlOptions { tls, ..cassandra::options(vec!["127.0.0.1:9042".into()], 1) };
        match CqlStore::open(options, Arc::new(SystemClock), &Registry::new()).map(|_| ()) {
            Err(OpenError::TlsFile { path, .. }) => assert_eq!(path, ca_file),
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

#[tokio::test]
async fn a_session_outlives_its_only_node() {
    let _turn = cassandra::turn().await;
    let cluster = Cluster::start(&["--durable"]);
    let options = cassandra::options(cluster.contact_points.clone(), 1);
    migrate(&options, false).await.unwrap();
    let server = Server { deadline: Duration::from_secs(2), ..Server::open(options.clone()).await };
    let list = fresh_list();
    server.add(&list, &[(now(), b"before")]).await;

    // It hangs: operations end at their deadline, and the node is asked again once it answers.
    cluster.pause(1);
    let began = Instant::now();
    let failed = server.try_add(&list, &server.op(), &[(now(), b"meanwhile")]).await.unwrap_err();
    assert!(matches!(failed, StoreError::Timeout { outcome_unknown: true }), "{failed:?}");
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    cluster.resume(1);
    eventually("after a pause", async || server.session.get(&server.op(), &list, &crate::probe::EVERYTHING).await)
        .await;

    // It dies: operations fail at once, and nothing acknowledged is gone when it is back.
    server.add(&list, &[(now(), b"last")]).await;
    cluster.kill(1);
    let began = Instant::now();
    let failed = server.try_add(&list, &server.op(), &[(now(), b"never")]).await.unwrap_err();
    assert!(matches!(failed, StoreError::Unavailable { .. }), "{failed:?}");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(why_no_session(&options).await.contains("connection refused"));
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
async fn a_cluster_with_logins_and_tls_lets_in_who_may() {
    let _turn = cassandra::turn().await;
    let certificates = tempfile::tempdir().unwrap();
    let dir = certificates.path();
    let cluster = Cluster::start(&["--auth", "--tls", dir.to_str().unwrap()]);
    let login = |password: &str| Some(Credentials { username: "cassandra".into(), password: password.into() });
    let file = |name: &str| dir.join(name);
    let client = Some(ClientCertificate { cert_file: file("client.pem"), key_file: file("client-key.pem") });
    let tls = CqlTls { ca_file: file("ca.pem"), client };
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

    let wrong = why_no_session(&CqlOptions { credentials: login("wrong-secret"), ..options.clone() }).await;
    assert!(wrong.contains("items.cql.username") && wrong.contains("refuses"), "{wrong}");
    assert!(!wrong.contains("wrong-secret"));
    let nobody = why_no_session(&CqlOptions { credentials: None, ..options.clone() }).await;
    assert!(nobody.contains("asks for a login"), "{nobody}");
    let plain = why_no_session(&CqlOptions { tls: None, ..options.clone() }).await;
    assert!(plain.contains("items.cql.tls.ca_file"), "{plain}");
    let nameless = Some(CqlTls { client: None, ..tls.clone() });
    let nameless = why_no_session(&CqlOptions { tls: nameless, ..options.clone() }).await;
    assert!(nameless.contains("cert_file"), "{nameless}");
    // The client's certificate is no authority of the node's.
    let stranger = Some(CqlTls { ca_file: file("client.pem"), ..tls });
    let stranger = why_no_session(&CqlOptions { tls: stranger, ..options.clone() }).await;
    assert!(stranger.contains("items.cql.tls.ca_file"), "{stranger}");
}
