//! Certificates for a server and a client, made by openssl.

use std::path::Path;
use std::process::{Command, Stdio};

const NEW_KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";

/// An authority, `ca.pem`, and two certificates with its signature: `server.pem` for 127.0.0.1 and `feeds.pem` for a
/// client, each with its key in `NAME-key.pem`.
pub fn make(dir: &Path) {
    let openssl = |arguments: &str| {
        let output = Command::new("openssl").args(arguments.split(' ')).current_dir(dir).stdin(Stdio::null()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    };
    openssl(&format!("req -x509 {NEW_KEY} -subj /CN=ca -days 2 -keyout ca-key.pem -out ca.pem"));
    for (name, names) in [("server", "IP:127.0.0.1"), ("feeds", "DNS:feeds.example.org")] {
        openssl(&format!("req {NEW_KEY} -subj /CN={name} -keyout {name}-key.pem -out {name}.csr"));
        std::fs::write(dir.join("names"), format!("subjectAltName={names}")).unwrap();
        let signing = "-CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 2 -extfile names";
        openssl(&format!("x509 -req -in {name}.csr {signing} -out {name}.pem"));
    }
}
