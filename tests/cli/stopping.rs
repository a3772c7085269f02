//! A stop under load: everything that the server took is answered, and nothing acknowledged is lost.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::callers::{Load, Told, ask};
use crate::program::Server;

const CALLERS: usize = 8;

fn path(number: usize) -> String {
    format!("/v1/lists/customer/seen/c-{number}/items")
}

#[test]
fn a_sigterm_under_load_cuts_off_nothing_that_was_accepted() {
    let server = Server::start();
    server.feature("seen", "string");
    let load = Load::start(server.address(), path, CALLERS);
    let busy = |server: &Server| server.items("seen", "c-0").len() > 50;
    let deadline = Instant::now() + Duration::from_secs(60);
    while !busy(&server) {
        assert!(Instant::now() < deadline, "the load does not get going");
    }

    let asked_to_stop = Instant::now();
    let (status, log, dir) = server.end(Signal::SIGTERM);
    assert_eq!(status, Some(0), "{log}");
    let told = load.end();
    for Told { added, wrong, cut_at, .. } in &told {
        assert!(added.len() > 5 && wrong.is_empty(), "{} added, {wrong:?}", added.len());
        // What was sent before the server was asked to stop was accepted, and so it is answered. A
        // request that meets a connection just being closed has not been.
        assert!(cut_at.is_none_or(|at| at > asked_to_stop), "a request from before the stop was not answered");
    }

    let server = Server::start_in(dir, "127.0.0.1:0", &[]);
    for (number, Told { added, .. }) in told.iter().enumerate() {
        let mut stored: Vec<String> = server
            .items("seen", &format!("c-{number}"))
            .iter()
            .map(|item| item.split_once(' ').unwrap().1.trim_matches('"').to_owned())
            .collect();
        stored.reverse();
        assert!(stored.starts_with(added), "{added:?} were acknowledged, {stored:?} are there");
    }
}

#[test]
fn a_second_signal_stops_at_once() {
    let server = Server::start();
    server.feature("seen", "string");
    let address = server.address().to_owned();
    // A body that never ends keeps the server waiting for its grace.
    let mut endless = std::net::TcpStream::connect(&address).unwrap();
    let head = format!("POST {} HTTP/1.1\r\nhost: l\r\ncontent-length: 100\r\n\r\n{{", path(1));
    std::io::Write::write_all(&mut endless, head.as_bytes()).unwrap();
    assert_eq!(ask(&address, "GET", "/livez", "").status, 200);
    let pid = Pid::from_raw(server.pid() as i32);
    kill(pid, Signal::SIGTERM).unwrap();
    // Two signals at once would be one.
    while std::net::TcpStream::connect(&address).is_ok() {
        std::thread::yield_now();
    }
    let began = Instant::now();
    let (status, log, _) = server.end(Signal::SIGTERM);
    assert!(status.is_some(), "{log}");
    assert!(began.elapsed() < Duration::from_secs(15), "it waited for its grace: {log}");
}
