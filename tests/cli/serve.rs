//! The start of the server, and its reasons for refusing.

use std::net::TcpListener;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::program::{Server, liststore, repository, run};

/// Runs `serve` with a refused start, as on a terminal.
fn refused(arguments: &[&str], environment: &[(&str, &str)]) -> crate::program::CommandOutput {
    let dir = TempDir::new().unwrap();
    let mut command = liststore(&["serve"]);
    command.env("LISTSTORE__LOG__FORMAT", "text");
    command.args(arguments).envs(environment.iter().copied()).current_dir(dir.path());
    command.output().unwrap().into()
}

#[test]
fn the_ready_line_names_the_url_and_what_to_type_next() {
    let server = Server::start();
    let first = server.ready.lines().next().unwrap();
    assert!(first.starts_with(&format!("liststore is ready on {};", server.url)), "{first}");
    assert!(first.contains(&format!("console: {}/console;", server.url)), "{first}");
    let (status, log, _) = server.end(Signal::SIGTERM);
    assert_eq!(status, Some(0), "{log}");
    assert!(log.contains("\"ready\"") && log.contains("\"stopped\""), "{log}");
}

#[test]
fn ctrl_c_stops_it_as_a_sigterm_does() {
    let (status, log, _) = Server::start().end(Signal::SIGINT);
    assert_eq!(status, Some(0), "{log}");
}

/// A thread's scheduling policy and nice value: fields 41 and 19 of proc_pid_stat(5).
type Scheduling = (u32, i32);

/// First the policy of the thread for which all writes wait, then the other threads' policies.
fn scheduling_of(process: u32) -> (Vec<Scheduling>, Vec<Scheduling>) {
    let (mut of_log, mut of_others) = (Vec::new(), Vec::new());
    for task in std::fs::read_dir(format!("/proc/{process}/task")).unwrap() {
        // A thread may end in between.
        let Ok(stat) = std::fs::read_to_string(task.unwrap().path().join("stat")) else { continue };
        // The name of a thread, which comes second, may contain spaces.
        let (beginning, rest) = stat.rsplit_once(')').unwrap();
        let fields: Vec<_> = rest.split_whitespace().collect();
        let found = (fields[41 - 3].parse().unwrap(), fields[19 - 3].parse().unwrap());
        if beginning.ends_with("(items-log") { of_log.push(found) } else { of_others.push(found) }
    }
    (of_log, of_others)
}

#[test]
fn threads_take_turns_unless_an_operator_sets_their_policy() {
    const SCHED_OTHER: u32 = 0;
    const SCHED_BATCH: u32 = 3;
    let assert_all = |server: &Server, of_log, of_others| {
        // The writing thread has begun once a write is done.
        server.feature("seen", "string");
        server.ok(&["list", "add", "customer", "seen", "c-1", "--value", "x"]);
        let (log, others) = scheduling_of(server.pid());
        assert_eq!(log, [of_log]);
        assert!(others.len() > 5 && others.iter().all(|found| *found == of_others), "{others:?}");
    };
    let own = scheduling_of(std::process::id()).1[0];
    // The test may run under another policy.
    let expected = if own == (SCHED_OTHER, 0) { (SCHED_BATCH, 0) } else { own };
    assert_all(&Server::start(), own, expected);
    let niced = (own.0, 5);
    assert_all(&Server::start_after("renice -n 5 -p $$ > /dev/null"), niced, niced);
    let batch = (SCHED_BATCH, own.1);
    assert_all(&Server::start_after("chrt --batch --pid 0 $$"), batch, batch);
}

/// The message is the last line on standard error, after the log.
fn last_line(finished: &crate::program::CommandOutput) -> &str {
    finished.err.lines().last().unwrap_or_default()
}

#[test]
fn a_port_in_use_is_reported_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let finished = refused(&["--listen", &address], &[]);
    assert_eq!(finished.status, 1, "{finished:?}");
    let reported = last_line(&finished);
    assert!(reported.starts_with("error: cannot listen on") && reported.contains(&address), "{reported}");
    assert!(reported.contains("Address already in use"), "{reported}");
}

#[test]
fn a_port_in_use_is_refused_before_a_directory_is_made() {
    let (taken, dir) = (TcpListener::bind("127.0.0.1:0").unwrap(), TempDir::new().unwrap());
    let address = taken.local_addr().unwrap().to_string();
    let data = dir.path().join("data");
    let data = data.to_str().unwrap();
    let finished = refused(&["--listen", &address, "--data-dir", data], &[]);
    assert!(finished.status == 1 && last_line(&finished).contains("Address already in use"), "{finished:?}");
    let finished = refused(&["--listen", "127.0.0.1:0", "--data-dir", data], &[("LISTSTORE__ADMIN__LISTEN", &address)]);
    assert!(finished.status == 1 && last_line(&finished).contains("admin.listen"), "{finished:?}");
    assert!(!std::path::Path::new(data).exists());
}

#[test]
fn a_directory_of_other_files_is_refused_unchanged() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("x"), "mine").unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let finished = refused(&["--listen", "127.0.0.1:0", "--data-dir", dir.path().to_str().unwrap()], &[]);
    assert!(
        finished.status == 1 && last_line(&finished).contains("because it holds x: choose an empty directory"),
        "{finished:?}"
    );
    let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["x"]);
    let file = dir.path().join("x");
    let finished = refused(&["--listen", "127.0.0.1:0", "--data-dir", file.to_str().unwrap()], &[]);
    assert!(finished.status == 1 && last_line(&finished).contains("is a file: choose a directory"), "{finished:?}");
}

#[test]
fn the_first_configuration_of_the_documentation_starts_a_server() {
    let page = std::fs::read_to_string(repository().join("docs/reference/configuration.md")).unwrap();
    let text = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let server = Server::start_configured(text);
    assert!(server.ready.contains("liststore is ready on"), "{}", server.ready);
}

#[test]
fn an_unwritable_directory_is_reported_in_one_line() {
    let dir = TempDir::new().unwrap();
    // A file where a directory is needed stops the superuser too.
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let finished = refused(&["--listen", "127.0.0.1:0", "--data-dir", file.join("data").to_str().unwrap()], &[]);
    assert_eq!(finished.status, 1, "{finished:?}");
    let reported = last_line(&finished);
    assert!(reported.starts_with("error: cannot open") && reported.contains("file/data"), "{reported}");
}

#[test]
fn a_directory_in_use_is_reported_in_one_line() {
    let server = Server::start();
    let data = server.dir.path().join("data");
    let finished = refused(&["--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()], &[]);
    assert_eq!(finished.status, 1, "{finished:?}");
    let reported = last_line(&finished);
    assert!(reported.contains("in use") && reported.contains("data"), "{reported}");
    let checked = run(&["check", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()]);
    assert_eq!(checked.status, 1, "{checked:?}");
    assert!(checked.out.contains("in use"), "{checked:?}");
    let verified = run(&["check", "--dir", data.to_str().unwrap()]);
    assert_eq!(verified.status, 1, "{verified:?}");
    assert!(last_line(&verified).contains("is in use by a running server: stop it"), "{verified:?}");
}

#[test]
fn bad_settings_are_reported_all_at_once() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("liststore.toml");
    std::fs::write(&file, "[http]\nlisten = \"nowhere\"\nlisen = 1\n").unwrap();
    let finished = refused(
        &["--config", file.to_str().unwrap()],
        &[("LISTSTORE__ITEMS__ACTORS", "0"), ("LISTSTORE__METADATA__STORE", "postgres"), ("LISTSTORE_URL", "x")],
    );
    assert_eq!(finished.status, 2);
    let reported: Vec<&str> = finished.err.lines().collect();
    assert_eq!(reported.len(), 4, "{reported:?}");
    assert!(reported.iter().all(|line| line.starts_with("error: ")), "{reported:?}");
    assert!(
        reported[0].contains("http.lisen")
            && reported[0].contains("liststore.toml")
            && reported[0].contains("http.listen")
    );
    assert!(reported[1].contains("http.listen") && reported[1].contains("nowhere"));
    assert!(reported[2].contains("items.actors") && reported[2].contains("LISTSTORE__ITEMS__ACTORS"));
    assert!(reported[3].contains("metadata.postgres.url") && reported[3].contains("not set"));
    for command in ["check", "migrate"] {
        let finished = liststore(&[command]).env("LISTSTORE__HTTP__WORKES", "1").output().unwrap();
        assert_eq!(finished.status.code(), Some(2), "{command}");
    }
}

#[test]
fn printed_settings_load_back_without_secrets() {
    let dir = TempDir::new().unwrap();
    let print = |arguments: &[&str], environment: &[(&str, &str)]| {
        let mut command = liststore(&["serve", "--print-config"]);
        command.args(arguments).envs(environment.iter().copied()).current_dir(dir.path());
        crate::program::CommandOutput::from(command.output().unwrap()).ok()
    };
    let url = "postgres://me:hunter2@db/features";
    let environment = [
        ("LISTSTORE__METADATA__STORE", "postgres"),
        ("LISTSTORE__METADATA__POSTGRES__URL", url),
        ("LISTSTORE__ITEMS__CQL__CONTACT_POINTS", "a:1,b"),
        ("LISTSTORE__HTTP__BODY_BYTES_MAX", "1 MiB"),
    ];
    let printed = print(&["--listen", "[::1]:0"], &environment);
    assert!(printed.contains("listen = \"[::1]:0\"") && printed.contains("body_bytes_max = 1048576"), "{printed}");
    assert!(printed.contains("contact_points = [\"a:1\", \"b:9042\"]"), "{printed}");
    assert!(printed.contains("me:********@db") && !printed.contains("hunter2"), "{printed}");
    let file = dir.path().join("printed.toml");
    std::fs::write(&file, &printed).unwrap();
    assert_eq!(print(&["--config", file.to_str().unwrap()], &[]), printed);
    assert!(!dir.path().join("liststore-data").exists(), "printing settings must touch nothing");
}

#[test]
fn check_reports_the_contents_of_a_directory() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let out = run(&["check", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()]).ok();
    assert!(out.contains("http.listen is set by flag --listen"), "{out}");
    assert!(out.ends_with("liststore serve would start\n"), "{out}");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let finished = run(&["check", "--listen", &address, "--data-dir", data.to_str().unwrap()]);
    assert!(finished.out.contains("http      FAILED: cannot listen on"), "{finished:?}");
    assert_eq!(finished.failed(1), "error: liststore serve would not start or not be ready: see http above");
}

#[test]
fn a_server_at_all_addresses_prints_a_usable_url() {
    let server = Server::start_in(TempDir::new().unwrap(), "0.0.0.0:0", &[("LISTSTORE__ACCESS__MODE", "required")]);
    let url = format!("http://{}", server.address());
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    let finished = run(&["ready", "--url", &url]);
    assert_eq!(finished.ok(), "ready: pass\n");
    let (status, log, _) = server.end(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(status, Some(0), "{log}");
    let finished = run(&["ready", "--url", &url]).failed(1);
    assert!(finished.contains("cannot reach"), "{finished}");
}

#[test]
fn the_embedded_stores_need_no_migration() {
    for arguments in [&["migrate"][..], &["migrate", "--dry-run"]] {
        let out = run(arguments).ok();
        assert_eq!(out.lines().filter(|line| line.ends_with("needs no migration")).count(), 2, "{out}");
    }
}

#[test]
fn the_version_names_the_commit_and_the_features() {
    let short = run(&["-V"]).ok();
    assert_eq!(short, format!("liststore {}\n", env!("CARGO_PKG_VERSION")));
    let long = run(&["--version"]).ok();
    let lines: Vec<_> = long.lines().collect();
    assert_eq!(lines[0], short.trim_end());
    assert!(lines[1].strip_prefix("commit: ").is_some_and(|commit| !commit.is_empty()), "{long}");
    assert_eq!(lines[2..], ["features: cql, postgres, parquet"]);
}

#[test]
fn every_command_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man/man1");
    run(&["man", pages.to_str().unwrap()]).ok();
    for page in ["liststore", "liststore-serve", "liststore-list-get", "liststore-entity-find"] {
        let text = std::fs::read_to_string(pages.join(format!("{page}.1"))).unwrap();
        assert!(text.contains(".SH SYNOPSIS") && text.contains("Examples:"), "{page}: {text}");
    }
    let refused = run(&["man", "/dev/null/x"]).failed(1);
    assert!(refused.contains("cannot write manual pages to /dev/null/x: "), "{refused}");
}

#[test]
fn wrong_usage_and_help_have_their_exit_statuses() {
    for (arguments, status) in [
        (&["--help"][..], 0),
        (&["--version"], 0),
        (&["help", "import"], 0),
        (&["list", "get", "--help"], 0),
        (&[], 2),
        (&["sirve"], 2),
        (&["serve", "--listen"], 2),
        (&["serve", "--listen", "x"], 2),
        (&["feature", "create", "user"], 2),
        (&["feature", "create", "us er", "f", "--value-type", "string", "--ttl", "1d"], 2),
        (&["feature", "create", "user", "f", "--value-type", "text", "--ttl", "1d"], 2),
        (&["feature", "create", "user", "f", "--value-type", "string", "--ttl", "7301d"], 2),
        (&["feature", "update", "user", "f"], 2),
        (&["list", "get", "user", "f", ".."], 2),
        (&["list", "get", "user", "f", "e", "--limit", "0"], 2),
        (&["list", "get", "user", "f", "e", "--min-timestamp", "yesterday"], 2),
        (&["list", "add", "user", "f", "e"], 2),
        (&["list", "get", "user", "f", "e", "--url", "localhost:8080"], 2),
    ] {
        let finished = run(arguments);
        assert_eq!(finished.status, status, "{arguments:?}: {finished:?}");
        assert_eq!(finished.out.is_empty(), status == 2, "{arguments:?}: help goes to standard output, errors do not");
    }
}
