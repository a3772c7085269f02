//! A stop under load: the server answers every accepted request, and loses no acknowledged write.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::callers::{Caller, Load, Reported, ask};
use crate::program::{Server, first_process};

const CALLERS: usize = 8;

fn path(number: usize) -> String {
    format!("/v1/lists/customer/seen/c-{number}/items")
}

#[test]
fn a_sigterm_under_load_completes_accepted_requests() {
    // Long enough that the server accepts delayed requests of a busy machine too. Connections end after that.
    const DRAIN: Duration = Duration::from_secs(3);
    let server = Server::start_with(&[("LISTSTORE__HTTP__DRAIN_DELAY_SECS", "3")]);
    server.feature("seen", "string");
    let load = Load::start(server.address(), path, CALLERS);
    let busy = |server: &Server| (0..CALLERS).all(|n| server.items("seen", &format!("c-{n}")).len() > 10);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !busy(&server) {
        assert!(Instant::now() < deadline, "the load does not get going");
    }

    let asked_to_stop = Instant::now();
    let (status, log, dir) = server.end(Signal::SIGTERM);
    assert_eq!(status, Some(0), "{log}");
    let reported = load.end();
    for Reported { added, wrong, cut_at, .. } in &reported {
        assert!(added.len() > 5 && wrong.is_empty(), "{} added, {wrong:?}", added.len());
        // Requests from before the stop were accepted, and so they are answered. A request on a connection that is just
        // being closed was not accepted.
        let drained = asked_to_stop + DRAIN - Duration::from_secs(1);
        assert!(cut_at.is_none_or(|at| at > drained), "a request from before the stop was not answered");
    }

    let server = Server::start_in(dir, "127.0.0.1:0", &[]);
    for (number, Reported { added, .. }) in reported.iter().enumerate() {
        let mut stored: Vec<String> = server
            .items("seen", &format!("c-{number}"))
            .iter()
            .map(|item| item.split_once(' ').unwrap().1.trim_matches('"').to_owned())
            .collect();
        stored.reverse();
        assert!(stored.starts_with(added), "{added:?} were acknowledged, {stored:?} are there");
    }
}

/// As behind a load balancer that checks /readyz, and stops sending requests once it fails.
#[test]
fn a_draining_server_fails_no_busy_idle_or_new_client() {
    let server = Server::start_with(&[("LISTSTORE__HTTP__DRAIN_DELAY_SECS", "3600")]);
    server.feature("seen", "string");
    let address = server.address().to_owned();
    let load = Load::start(&address, path, CALLERS);
    let mut idle: Vec<_> = (0..CALLERS).map(|_| Caller::connect(&address)).collect();
    for caller in &mut idle {
        assert_eq!(caller.ask("GET", "/livez", "").unwrap().status, 200);
    }
    kill(Pid::from_raw(server.pid() as i32), Signal::SIGTERM).unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    while ask(&address, "GET", "/readyz", "").status != 503 {
        assert!(Instant::now() < patience, "a server that is asked to stop stays ready");
    }
    let new = ask(&address, "POST", &path(900), r#"{"items": [{"timestamp": 1767225600000000000, "value": "x"}]}"#);
    assert!(new.status == 200 && new.has_connection_close());
    for caller in &mut idle {
        let answer = caller.ask("GET", &path(900), "").expect("an idle connection was ended under a request");
        assert!(answer.status == 200 && answer.has_connection_close());
    }
    for Reported { added, wrong, cut_at, .. } in load.end() {
        assert!(wrong.is_empty() && cut_at.is_none(), "{} added, {wrong:?}", added.len());
    }
    // Its hour is not over, but a second signal does not wait for it.
    let (status, log, _) = server.end(Signal::SIGTERM);
    assert_eq!(status, Some(1), "{log}");
}

/// In a container it is the first process, whose signals the kernel drops unless they are handled. A starting server,
/// here with a database that does not answer, ends at once nevertheless.
#[test]
fn a_starting_server_ends_on_a_signal_even_as_the_first_process() {
    for (command, status) in [("serve", 0), ("migrate", 1)] {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("postgres://liststore@{}/liststore", silent.local_addr().unwrap());
        let mut process = first_process(&[command])
            .env("LISTSTORE__METADATA__STORE", "postgres")
            .env("LISTSTORE__METADATA__POSTGRES__URL", &url)
            .env("LISTSTORE__ITEMS__STORE", "memory")
            .env("LISTSTORE__HTTP__LISTEN", "127.0.0.1:0")
            .spawn()
            .unwrap();
        // It has reached the connection.
        let (_connected, _) = silent.accept().unwrap();
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", process.id())).unwrap();
        let pid = children.trim().parse().unwrap();
        kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
        assert_eq!(process.wait().unwrap().code(), Some(status), "{command}");
    }
}

#[test]
fn a_second_signal_stops_at_once() {
    let server = Server::start();
    server.feature("seen", "string");
    let address = server.address().to_owned();
    // A body without an end makes the server wait for its grace period.
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
