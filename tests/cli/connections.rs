//! Thousands of connections to a server that started with a low limit of open files.

use std::io::{Read, Write};
use std::net::TcpStream;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::program::Server;

/// The files that other tests of this process may have open.
const OF_OTHERS: u64 = 1_000;
/// The memory of the server for a connection that waits for a request.
const IDLE_BYTES_MAX: u64 = 3_000;
/// The additional memory. Where few files can be open, few connections share it.
const OTHER_BYTES_MAX: u64 = 4 << 20;

/// The private memory of a process in bytes (proc(5)).
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Sends a request on this connection, which stays open.
fn ask(stream: &mut TcpStream, path: &str) -> String {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn ten_thousand_idle_connections_are_harmless() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    let count = 10_000.min(hard.saturating_sub(OF_OTHERS) / 2);
    let server = Server::start_after("ulimit -Sn 256");
    let resident_before = resident(server.pid());
    let idle: Vec<TcpStream> = (0..count)
        .map(|number| {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            // Half of them have been used, and stay open.
            if number % 2 == 0 {
                assert_eq!(ask(&mut stream, "/livez"), "HTTP/1.1 200");
            }
            stream
        })
        .collect();
    let mut another = TcpStream::connect(server.address()).unwrap();
    assert_eq!(ask(&mut another, "/readyz"), "HTTP/1.1 200");
    let bytes = resident(server.pid()).saturating_sub(resident_before);
    eprintln!("{count} connections take {} bytes of memory each", bytes / count);
    assert!(bytes <= count * IDLE_BYTES_MAX + OTHER_BYTES_MAX, "{count} idle connections take {bytes} bytes");
    // The server can still open files.
    server.feature("seen", "string");
    server.ok(&["list", "add", "customer", "seen", "c-1", "--value", "x"]);
    assert_eq!(server.items("seen", "c-1").len(), 1);
    drop(idle);
}

/// Port scanners are not a failure of the server, so its log stays unchanged.
#[test]
fn requests_of_scanners_are_not_logged() {
    let server = Server::start();
    let mut scanners = Vec::new();
    for sent in
        [&b""[..], b"\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"SSH-2.0-x\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\0\0\0"]
    {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(sent).unwrap();
        scanners.push(stream);
    }
    let mut another = TcpStream::connect(server.address()).unwrap();
    assert_eq!(ask(&mut another, "/livez"), "HTTP/1.1 200");
    drop(scanners);
    let mut another = TcpStream::connect(server.address()).unwrap();
    assert_eq!(ask(&mut another, "/readyz"), "HTTP/1.1 200");
    let (_, log, _) = server.end(nix::sys::signal::Signal::SIGTERM);
    // A start may log notes about the machine.
    let (_, log) = log.split_once("\"message\":\"ready\"").expect("it was ready");
    assert!(!log.contains("ERROR") && !log.contains("WARN"), "{log}");
}
