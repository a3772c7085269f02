//! Settings of the HTTP server.

use std::path::PathBuf;

use serde::Serialize;

use super::choices::ClientAuth;
use super::forms::{host_name, origin};
use super::machine;
use super::reader::{Reader, boolean, bytes, choice, host_port, list, number, path, some};
use super::section::section;
use super::texts::HostPort;
use crate::access::Budget;

section! {
    HttpSettings "http."
    /// Port 0 picks a free one.
    listen: HostPort = HostPort::new("127.0.0.1", 8080), host_port(None);
    // The HTTP server accepts no more.
    workers: usize = machine::cores(), number(1..=512);
    body_bytes_max: usize = 2 << 20, bytes(1 << 10..=1 << 30);
    response_bytes_max: usize = 4 << 20, bytes(1 << 10..=1 << 30);
    compression_bytes_min: usize = 8 << 10, bytes(1 << 10..=1 << 30);
    connections_max: usize = machine::connections(), number(1..=1_000_000);
    buffered_bytes_max: usize = (machine::memory_bytes() / 16).max(64 << 20), bytes(4 << 10..=1 << 46),
        first Self::buffer_enough;
    body_timeout_secs: u64 = 30, number(1..=3_600);
    socket_wait_ms: u64 = 50, number(10..=60_000);
    /// Such as `https://lists.example.org`, in lower case and without the scheme's own port.
    allowed_origins: Vec<String> = Vec::new(), list(origin);
    drain_delay_secs: u64 = 0, number(0..=3_600);
    /// Names without ports, in lower case.
    allowed_hosts: Vec<String> = Vec::new(), list(host_name);
    shutdown_grace_secs: u64 = 20, number(1..=3_600);
    { tls: HttpTlsSettings, }
}

impl HttpSettings {
    /// The minimum of `http.buffered_bytes_max` for the other settings.
    pub(super) fn buffered_bytes_min(&self) -> usize {
        Budget::bytes_min(self.body_bytes_max, self.response_bytes_max)
    }

    fn buffer_enough(&mut self) {
        self.buffered_bytes_max = self.buffered_bytes_max.max(self.buffered_bytes_min());
    }
}

section! {
    /// TLS is used if and only if `certificate_file` is set.
    HttpTlsSettings "http.tls."
    certificate_file: Option<PathBuf> = None, some(path);
    key_file: Option<PathBuf> = None, some(path);
    client_ca_file: Option<PathBuf> = None, some(path);
    client_crl_file: Option<PathBuf> = None, some(path);
    client_files_age_max_secs: u64 = 86_400, number(1..=31_536_000);
    client_auth: ClientAuth = ClientAuth::None, choice;
}

section! {
    AdminSettings "admin."
    /// Unset: health, metrics and the pool are served at `http.listen`. Port 0 picks a free one.
    listen: Option<HostPort> = None, some(host_port(None));
    /// TLS at that address, as `http.tls` configures it.
    tls: bool = false, boolean;
}
