//! Connections to Postgres under TLS: verification, the report of `check`, and certificates that are replaced while a
//! server runs.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use liststore::metadata::postgres::{inspect, migrate, tls};

use crate::postgres::{Database, Server};
use crate::schema;
use crate::servers::{Node, run, until};

fn openssl(dir: &Path, arguments: &str) {
    let output = Command::new("openssl").current_dir(dir).args(arguments.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "openssl {arguments}:\n{}", String::from_utf8_lossy(&output.stderr));
}

/// A fresh authority, `ca.pem`, and a certificate by it for 127.0.0.1, `server.pem` with `server.key`.
fn certificates(dir: &Path) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(dir, &format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=authority -days 2"));
    openssl(dir, &format!("req {key} -keyout server.key -out server.csr -subj /CN=server"));
    fs::write(dir.join("names"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    openssl(
        dir,
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 -extfile names",
    );
}

/// Has the server use a certificate for the connections that begin from now on.
async fn present(server: &Server, database: &Database, from: &Path) {
    for file in ["server.pem", "server.key"] {
        let to = server.data().join(file);
        fs::copy(from.join(file), &to).unwrap();
        fs::set_permissions(&to, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let owner = fs::metadata(server.data()).unwrap();
        let (user, group) = (std::os::unix::fs::MetadataExt::uid(&owner), std::os::unix::fs::MetadataExt::gid(&owner));
        std::os::unix::fs::chown(&to, Some(user), Some(group)).unwrap();
    }
    for setting in ["ssl_cert_file = 'server.pem'", "ssl_key_file = 'server.key'", "ssl = on"] {
        database.execute(&format!("ALTER SYSTEM SET {setting}")).await;
    }
    database.execute("SELECT pg_reload_conf()").await;
}

#[test]
fn certificates_are_verified_and_may_be_replaced_while_a_server_runs() {
    run(async {
        let server = Server::start();
        let database = Database::create_in(&server.url, "").await;
        migrate(&database.url, false).await.unwrap();
        let plain = inspect(&database.url).await.unwrap();
        assert_eq!(tls(&database.url, &plain).unwrap(), "sslmode=prefer, not encrypted");

        let (first, second, mine) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        certificates(first.path());
        certificates(second.path());
        let authority = mine.path().join("ca.pem");
        fs::copy(first.path().join("ca.pem"), &authority).unwrap();
        present(&server, &database, first.path()).await;
        let url = format!("{}?sslmode=verify-full&sslrootcert={}", database.url, authority.display());
        let node = Node::start_polling(&url, Duration::from_secs(1)).await;
        node.create("seen", 60).await.unwrap();
        let encrypted = inspect(&url).await.unwrap();
        assert_eq!(tls(&url, &encrypted).unwrap(), "sslmode=verify-full, encrypted by TLSv1.3");

        // Another authority's certificate is trusted only after its own is in the file.
        present(&server, &database, second.path()).await;
        let by_second = url.replace(mine.path().to_str().unwrap(), second.path().to_str().unwrap());
        schema::until("it presents the second", async || inspect(&by_second).await.is_ok()).await;
        database.cut_connections().await;
        until("it refuses the certificate", || {
            node.handle
                .unavailable_reason()
                .is_some_and(|reason| reason.contains("is not signed by a trusted authority"))
        })
        .await;
        fs::copy(second.path().join("ca.pem"), &authority).unwrap();
        until("no trouble is left", || node.handle.unavailable_reason().is_none()).await;
        node.create("after", 60).await.unwrap();
        node.stop().await;
    });
}
