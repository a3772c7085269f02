//! PgBouncers for tests, as Debian packages them and with its defaults.

use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::ports::free_port;
use crate::postgres::address_of;

/// A PgBouncer before one database. It ends with the test.
pub struct PgBouncer {
    process: Child,
    _dir: TempDir,
    pub url: String,
}

impl PgBouncer {
    /// `pool_mode` as in its settings, with PgBouncer's defaults for the rest.
    pub async fn start(url: &str, pool_mode: &str) -> Self {
        let address = address_of(url);
        let (host, port) = address.split_once(':').unwrap();
        let own_port = free_port(Ipv4Addr::LOCALHOST);
        let dir = tempfile::tempdir().unwrap();
        let settings = dir.path().join("pgbouncer.ini");
        let log = dir.path().join("pgbouncer.log");
        let text = format!(
            "[databases]\n* = host={host} port={port} user=liststore\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {own_port}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = {pool_mode}\n"
        );
        fs::write(&settings, text).unwrap();
        let mut command = Command::new("/usr/sbin/pgbouncer");
        if rustix::process::geteuid().is_root() {
            // It refuses to run as root.
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
            command.args(["-u", "nobody"]);
        }
        let process = command
            .arg(&settings)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap_or_else(|error| panic!("{error}: install Debian's pgbouncer, as scripts/test does"));
        let patience = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", own_port)).is_err() {
            if Instant::now() > patience {
                let mut reported = String::new();
                fs::File::open(&log).unwrap().read_to_string(&mut reported).unwrap();
                panic!("pgbouncer does not listen:\n{reported}");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Self { process, _dir: dir, url: url.replace(&address, &format!("127.0.0.1:{own_port}")) }
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
