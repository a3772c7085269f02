//! Connections by the thousands, to a server that was started with a low limit of open files.

use std::io::{Read, Write};
use std::net::TcpStream;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::program::Server;

/// What other tests of this process may have open meanwhile.
const OF_OTHERS: u64 = 1_000;
/// Memory of the server that a connection may take while it waits for a request.
const IDLE_BYTES_MAX: u64 = 3_000;
/// What it may need besides: where few files can be open, few connections share it.
const OTHER_BYTES_MAX: u64 = 4 << 20;

/// Bytes of memory that a process has to itself (proc(5)).
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Asks on this connection, which stays open.
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
            // Half of them have been used, and are kept for the next time.
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
    // Files can be opened all the same.
    server.feature("seen", "string");
    server.ok(&["list", "add", "customer", "seen", "c-1", "--value", "x"]);
    assert_eq!(server.items("seen", "c-1").len(), 1);
    drop(idle);
}

/// Who scans ports is no failure of the server's: its log stays as it is.
#[test]
fn what_scanners_send_is_no_line_in_the_log() {
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
    // A start may have something to say of the machine.
    let (_, log) = log.split_once("\"message\":\"ready\"").expect("it was ready");
    assert!(!log.contains("ERROR") && !log.contains("WARN"), "{log}");
}
