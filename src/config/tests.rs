//! Tests of loading and of the rules between settings.

use std::ffi::OsString;
use std::io::Write;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::access::{ActsFor, Budget, Holder, Identity, Share};

fn environment(variables: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

fn load(file: &str, variables: &[(&str, &str)], flags: &[Flag]) -> Result<Loaded, Vec<String>> {
    let mut config_file = tempfile::NamedTempFile::new().unwrap();
    config_file.write_all(file.as_bytes()).unwrap();
    let name = config_file.path().display().to_string();
    let layers = Layers { config_file: Some(config_file.path()), environment: environment(variables), flags };
    Settings::load_from(&layers)
        .map_err(|errors| errors.iter().map(|e| e.to_string().replace(&name, "FILE")).collect::<Vec<_>>())
}

fn problems(file: &str, variables: &[(&str, &str)]) -> Vec<String> {
    load(file, variables, &[]).unwrap_err()
}

#[test]
fn nothing_set_gives_the_defaults() {
    let loaded = load("", &[], &[]).unwrap();
    assert_eq!(loaded.settings, Settings::default());
    assert_eq!(loaded.settings.http.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(loaded.settings.items.embedded.dir, Path::new("liststore-data"));
    assert!(loaded.origins.is_empty());
    assert!(loaded.settings.warnings().is_empty());
}

#[test]
fn permits_have_other_defaults_where_they_bound_requests_to_a_cluster() {
    let permits = |file: &str| {
        let items = load(file, &[], &[]).unwrap().settings.items;
        (items.permits_per_actor, items.permit_wait_ms)
    };
    assert_eq!(permits(""), (512, 50));
    let cql = "[items]\nstore = \"cql\"\ncql.contact_points = [\"a\"]\n";
    assert_eq!(permits(cql), (64, 200));
    assert_eq!(permits(&format!("{cql}permits_per_actor = 4\npermit_wait_ms = 7")), (4, 7));
}

#[test]
fn nodes_are_translated_by_address_or_host_id() {
    let id = "6f1b6a34-1e9c-4c37-9f0e-0d8d8f3a9b21";
    let reported = format!("10.0.0.1:9042=203.0.113.7:1,10.0.0.2=203.0.113.7:2,{id}=203.0.113.7:3,fd00::1=[fd00::9]:4");
    let shown = format!("10.0.0.1=203.0.113.7:1,10.0.0.2=203.0.113.7:2,{id}=203.0.113.7:3,fd00::1=[fd00::9]:4");
    let read = |reported: &str| {
        let file = format!("items.cql.address_translation = \"{reported}\"");
        load(&file, &[], &[]).unwrap().settings.items.cql.address_translation
    };
    assert_eq!(read(&reported), read(&shown));
    let settings = serde_json::to_value(read(&reported)).unwrap();
    assert_eq!(settings, serde_json::json!(shown.split(',').collect::<Vec<_>>()), "the output can be read again");
}

#[test]
fn flags_override_the_environment_and_that_overrides_the_file() {
    let file =
        "[http]\nlisten = \"1.1.1.1:1\"\nworkers = 3\n[items]\nactors = 4\n[items.embedded]\nfsync = \"interval\"";
    let variables = [("LISTSTORE__HTTP__LISTEN", "2.2.2.2:2"), ("LISTSTORE__HTTP__WORKERS", "5"), ("PATH", "/bin")];
    let flags = [Flag { flag: "--listen", key: "http.listen", value: "3.3.3.3:3".into() }];
    let Loaded { settings, origins } = load(file, &variables, &flags).unwrap();
    assert_eq!(settings.http.listen.to_string(), "3.3.3.3:3");
    assert_eq!((settings.http.workers, settings.items.actors), (5, 4));
    assert_eq!(settings.items.embedded.fsync, Fsync::Interval);
    assert_eq!(origins["http.listen"], "flag --listen");
    assert_eq!(origins["http.workers"], "environment variable LISTSTORE__HTTP__WORKERS");
    assert!(origins["items.actors"].contains("/"));
}

/// An unknown parameter was once a line in the log with its value, and a connection without TLS.
#[test]
fn a_typing_error_in_the_postgres_url_is_refused_without_its_value() {
    for (parameter, nearest) in [("sslmod=verify-full", "sslmode"), ("sslpassword=hunter2", "password")] {
        let url = format!("postgres://me:hunter2@db/x?{parameter}");
        let reported = problems("metadata.store = \"postgres\"", &[("LISTSTORE__METADATA__POSTGRES__URL", &url)]);
        let name = parameter.split_once('=').unwrap().0;
        assert_eq!(
            reported,
            [format!(
                "metadata.postgres.url (environment variable LISTSTORE__METADATA__POSTGRES__URL): has the unknown \
                 parameter {name}; the nearest known one is {nearest}"
            )]
        );
    }
}

#[test]
fn lists_are_arrays_in_the_file_and_comma_separated_elsewhere() {
    let contact_points = |loaded: Loaded| -> Vec<String> {
        loaded.settings.items.cql.contact_points.iter().map(ToString::to_string).collect()
    };
    let expected = vec!["a:9042".to_owned(), "b:19042".to_owned()];
    let file = "items.cql.contact_points = [\"a\", \"b:19042\"]";
    assert_eq!(contact_points(load(file, &[], &[]).unwrap()), expected);
    let variables = [("LISTSTORE__ITEMS__CQL__CONTACT_POINTS", "a:9042, b:19042")];
    assert_eq!(contact_points(load("", &variables, &[]).unwrap()), expected);
}

#[test]
fn byte_sizes_may_have_units() {
    let variables = [("LISTSTORE__ITEMS__EMBEDDED__CACHE_BYTES", "64 MiB")];
    let settings =
        load("http.body_bytes_max = \"1MiB\"\nhttp.response_bytes_max = 2048", &variables, &[]).unwrap().settings;
    assert_eq!((settings.http.body_bytes_max, settings.http.response_bytes_max), (1 << 20, 2048));
    assert_eq!(settings.items.embedded.cache_bytes, 64 << 20);
}

#[test]
fn all_mistakes_are_reported_at_once_with_key_and_source() {
    let file =
        "[http]\nlisten = \"nowhere\"\nlisen = 3\n[items]\nstore = \"cql\"\nactors = 0\n[items.cql]\nusername = \"u\"";
    let variables = [("LISTSTORE__METADATA__STORE", "mysql"), ("LISTSTORE__HTTP__WORKES", "2")];
    assert_eq!(
        problems(file, &variables),
        [
            "http.lisen (FILE): unknown key; the nearest known one is http.listen",
            "http.listen (FILE): must be host:port, such as 127.0.0.1:8080, not \"nowhere\"",
            "http.workes (environment variable LISTSTORE__HTTP__WORKES): unknown key; the nearest known one is \
             LISTSTORE__HTTP__WORKERS",
            "items.actors (FILE): must be a whole number from 1 to 1024, not 0",
            "items.cql.contact_points (not set): is required because items.store is cql: host:port,…",
            "items.cql.password (not set): is required with items.cql.username, or items.cql.password_file",
            "metadata.store (environment variable LISTSTORE__METADATA__STORE): must be one of embedded, postgres, \
             memory, not \"mysql\"",
        ]
    );
}

#[test]
fn the_nearest_key_may_be_in_another_section() {
    assert_eq!(problems("actors = 3", &[]), ["actors (FILE): unknown key; the nearest known one is items.actors"]);
    assert_eq!(
        problems("[items]\nfsync = \"group\"", &[]),
        ["items.fsync (FILE): unknown key; the nearest known one is items.embedded.fsync"]
    );
    assert_eq!(problems("items = 3", &[]), ["items (FILE): is a section, not a setting"]);
    assert_eq!(
        problems("[http.listen]\nport = 3", &[]),
        ["http.listen.port (FILE): unknown key; the nearest known one is http.listen"]
    );
}

#[test]
fn empty_sections_are_recognized() {
    assert!(load("[http]\n[items.cql]\n", &[], &[]).is_ok());
    assert_eq!(problems("[htp]\n", &[]).len(), 1);
}

#[test]
fn variables_with_one_underscore_are_not_settings() {
    assert!(load("", &[("LISTSTORE_URL", "http://x"), ("LISTSTOREX", "1")], &[]).is_ok());
    assert_eq!(problems("", &[("LISTSTORE__URL", "http://x")]).len(), 1);
    assert_eq!(problems("", &[("LISTSTORE__", "x")]).len(), 1);
}

#[test]
fn other_kinds_of_values_are_refused() {
    for (file, expected) in [
        ("http.workers = 1.5", "not a fraction"),
        ("http.workers = -1", "not -1"),
        ("http.workers = true", "not a boolean"),
        ("http.listen = 8080", "not 8080"),
        ("http.body_bytes_max = \"2 bananas\"", "not \"2 bananas\""),
        ("items.embedded.dir = \"\"", "must not be empty"),
        ("items.embedded.dir = 3", "not 3"),
        ("items.cql.contact_points = 3", "must be a list"),
        ("items.cql.contact_points = [3]", "not 3"),
        ("items.cql.keyspace = \"1; DROP\"", "a letter first"),
        ("items.cql.replication_factor = 0", "from 1 to 100"),
        ("items.cql.default_ttl_secs = 0", "from 1 to 630720000"),
        ("items.operation_timeout_ms = 0", "from 1 to"),
        ("items.timestamp_ahead_max = \"1 day\"", "must be none, or a duration"),
        ("items.timestamp_ahead_max = \"0s\"", "from 1s to 7300d"),
        ("items.cql.speculative_after_ms = 2000", "less than items.operation_timeout_ms"),
        ("items.cql.disallow_shard_aware_port = 1", "must be true or false, not 1"),
        ("items.cql.address_translation = [\"10.0.0.1:9042\"]", "such as 10.0.0.1=203.0.113.7:19042"),
        ("items.cql.address_translation = \"a=10.0.0.1:1\"", "the IP address or host ID of a node"),
        ("items.cql.address_translation = \"10.0.0.1=10.0.0.2\"", "an address and a port"),
        ("items.cql.address_translation = \"10.0.0.1:1=10.0.0.9:1,10.0.0.1:2=10.0.0.9:2\"", "maps 10.0.0.1 twice"),
        ("items.cql.replication = [\"dc1\"]", "must be such as dc1:3"),
        ("items.cql.replication = [\"dc1:0\"]", "from 1 to 100"),
        ("items.cql.datacenter = \"dc2\"\nitems.cql.replication = [\"dc1:3\"]", "must name items.cql.datacenter too"),
        ("items.cql.rack = \"r1\"", "with items.cql.rack"),
        ("items.cql.dialect = \"scylla\"\nitems.cql.read_consistency = \"EACH_QUORUM\"", "must not be EACH_QUORUM"),
        ("items.cql.tls.ca_file = \"c\"\nitems.cql.tls.server_name = \"a b\"", "a host name or an IP address"),
        ("items.cql.tls.server_name = \"db.example.com\"", "with items.cql.tls.server_name"),
        ("items.cql.tls.key_file = \"k\"", "with items.cql.tls.key_file"),
        ("metadata.store = \"postgres\"\nmetadata.postgres.url = \"mysql://x\"", "postgres://"),
        ("metadata.postgres.url = \"postgres://h/d\"", "metadata.store is embedded: set metadata.store to postgres"),
        ("metadata.store = \"memory\"\nmetadata.postgres.url_file = \"/u\"", "metadata.store is memory"),
        ("log.filter = \"liststore=loud\"", "info"),
        ("metadata.store = \"postgres\"", "is required"),
    ] {
        let reported = problems(file, &[]);
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert!(reported[0].contains(expected), "{reported:?} for {file}");
    }
}

#[test]
fn a_broken_or_missing_file_is_reported_in_one_line() {
    let reported = problems("[http\nlisten = 3", &[]);
    assert_eq!(reported.len(), 1);
    assert!(
        reported[0].starts_with("--config (FILE): invalid TOML at line 1") && !reported[0].contains('\n'),
        "{reported:?}"
    );
    let errors = Settings::load(Some(Path::new("/no/such/file.toml")), &[]).unwrap_err();
    assert_eq!(errors[0].origin, "/no/such/file.toml");
    assert!(errors[0].problem.starts_with("cannot read the configuration file"), "{errors:?}");
    let (folder, utf16) = (tempfile::tempdir().unwrap(), b"\xff\xfeh\0t\0t\0p\0");
    let file = folder.path().join("utf16.toml");
    std::fs::write(&file, utf16).unwrap();
    let errors = Settings::load(Some(&file), &[]).unwrap_err();
    assert!(errors[0].problem.ends_with("save it as TOML in UTF-8"), "{errors:?}");
}

#[test]
fn printed_settings_load_back_unchanged() {
    let file = "http.listen = \"[::1]:0\"\nitems.actors = 7\nitems.cql.speculative_after_ms = 9\nlog.format = \"json\"\n\
                items.cql.contact_points = [\"a\", \"b:1\"]\nitems.cql.read_consistency = \"local_one\"\n\
                items.cql.tls.ca_file = \"/ca.pem\"";
    for settings in [Settings::default(), load(file, &[], &[]).unwrap().settings] {
        assert_eq!(load(&settings.to_toml().unwrap(), &[], &[]).unwrap().settings, settings);
    }
}

#[test]
fn printed_settings_and_mistakes_contain_no_secret() {
    let file = "items.cql.username = \"u\"\nitems.cql.password = \"hunter2\"\n\
                metadata.store = \"postgres\"\n\
                metadata.postgres.url = \"postgres://me:hunter2@db/features\"";
    let settings = load(file, &[], &[]).unwrap().settings;
    let shown = format!("{} {settings:?}", settings.to_toml().unwrap());
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("postgres://me:********@db/features"), "{shown}");
    let reported = problems("metadata.postgres.url = \"hunter2\"\nitems.cql.password = 2222", &[]).join("\n");
    assert!(!reported.contains("hunter2") && !reported.contains("2222"), "{reported}");
}

#[test]
fn a_secret_is_given_or_in_a_file_and_not_both() {
    let login = "items.cql.username = \"u\"\nitems.cql.password_file = \"/secrets/p\"\n";
    let url = "metadata.store = \"postgres\"\nmetadata.postgres.url_file = \"/secrets/url\"\n";
    assert!(load(&format!("{login}{url}"), &[], &[]).is_ok());
    let both = format!("{login}{url}items.cql.password = \"p\"\nmetadata.postgres.url = \"postgres://h/d\"");
    let reported = problems(&both, &[]);
    assert_eq!(reported.len(), 2, "{reported:?}");
    assert!(reported.iter().all(|problem| problem.contains("must not be combined")), "{reported:?}");
    assert!(problems("items.cql.password_file = \"/p\"", &[])[0].contains("items.cql.username"));
}

#[test]
fn tls_for_administration_needs_its_address_and_a_certificate() {
    let reported = problems("admin.tls = true", &[]);
    assert!(
        reported.len() == 2 && reported.iter().all(|problem| problem.contains("is required with admin.tls")),
        "{reported:?}"
    );
    let file = "admin.listen = \"h:1\"\nadmin.tls = true\nhttp.tls.certificate_file = \"c\"\nhttp.tls.key_file = \"k\"";
    assert!(load(file, &[], &[]).unwrap().settings.admin.tls);
}

#[test]
fn local_definitions_of_shared_items_cause_a_warning() {
    let file = "items.store = \"cql\"\nitems.cql.contact_points = [\"a\"]";
    assert_eq!(load(file, &[], &[]).unwrap().settings.warnings().len(), 1);
    let file = format!("{file}\nmetadata.store = \"postgres\"\nmetadata.postgres.url = \"postgres://h/d\"");
    assert!(load(&file, &[], &[]).unwrap().settings.warnings().is_empty());
}

/// `docs/reference/configuration.md` names every key, in the order in which they are read, and its default.
#[test]
fn origins_are_read_as_browsers_write_them() {
    let origins = load("http.allowed_origins = [\"HTTPS://Lists.Example.org:443\", \"http://[::1]:3000\"]", &[], &[]);
    assert_eq!(origins.unwrap().settings.http.allowed_origins, ["https://lists.example.org", "http://[::1]:3000"]);
    for bad in ["lists.example.org", "https://", "https://x/", "https://u@x", "*", "null"] {
        assert_eq!(problems(&format!("http.allowed_origins = [{bad:?}]"), &[]).len(), 1, "{bad}");
    }
}

#[test]
fn the_memory_for_clients_fits_a_body_and_an_answer() {
    assert!(load("http.buffered_bytes_max = \"8 MiB\"", &[], &[]).is_ok());
    let refused = problems("http.buffered_bytes_max = \"7 MiB\"", &[]);
    for part in ["http.buffered_bytes_max", "at least 7733248", "http.body_bytes_max, which is 2097152", "4194304"] {
        assert!(refused.len() == 1 && refused[0].contains(part), "{refused:?}");
    }
    assert_eq!(problems("http.body_bytes_max = \"1 GiB\"\nhttp.buffered_bytes_max = \"1 GiB\"", &[]).len(), 1);
}

proptest! {
    /// A request that the settings allow is served to one caller. Otherwise the server would refuse it permanently.
    #[test]
    fn any_memory_for_clients_that_is_accepted_serves_the_largest_request(
        sizes in (10_u32..=30, 10_u32..=30).prop_map(|(body, answer)| (1_usize << body, 1_usize << answer)),
        near in prop_oneof![Just(None), (-3_i64..3).prop_map(Some), (-2_000_000_i64..8_000_000).prop_map(Some)],
    ) {
        let (body, answer) = sizes;
        let mut file = format!("http.body_bytes_max = {body}\nhttp.response_bytes_max = {answer}\n");
        let given = near.map(|near| ((body + answer.max(1 << 20) + (1_408 << 10)) as i64 + near).max(4 << 10));
        if let Some(given) = given {
            file += &format!("http.buffered_bytes_max = {given}\n");
        }
        match load(&file, &[], &[]) {
            Err(refused) => {
                prop_assert!(near.is_some_and(|near| near < 0), "{file}: {refused:?}");
                let least = Budget::bytes_min(body, answer);
                prop_assert!(refused[0].contains(&format!("at least {least}, ")), "{refused:?}");
            }
            Ok(loaded) => {
                let HttpSettings { body_bytes_max, response_bytes_max, buffered_bytes_max, .. } = loaded.settings.http;
                let budget = Budget::new(buffered_bytes_max, body_bytes_max, response_bytes_max);
                let identity = Arc::new(Identity::new("key:", "a", Vec::new(), ActsFor::Themselves));
                for holder in [Holder::Anyone, Holder::Known(&identity)] {
                    let [mut connection, mut answer] = [(); 2].map(|()| Share::new(Arc::clone(&budget), holder));
                    prop_assert!(connection.hold(body_bytes_max).is_ok(), "{file}");
                    prop_assert!(answer.hold(response_bytes_max).is_ok(), "{file}");
                    connection.absorb(answer);
                    prop_assert!(connection.hold(body_bytes_max + response_bytes_max).is_ok(), "{file}");
                }
            }
        }
    }
}

#[test]
fn the_documented_keys_and_defaults_are_the_real_ones() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/configuration.md");
    let page = std::fs::read_to_string(page).unwrap();
    let documented: Vec<(&str, &str)> = page
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            Some((cells.next()?.trim_end_matches('`'), cells.next()?))
        })
        .collect();
    let mut reader =
        Reader::new(layers::merge(&Layers { config_file: None, environment: Vec::new(), flags: &[] }).unwrap());
    Settings::default().read(&mut reader);
    let mut known = reader.known().to_vec();
    known.sort_unstable();
    let mut keys: Vec<&str> = documented.iter().map(|(key, _)| *key).collect();
    keys.sort_unstable();
    assert_eq!(keys, known);

    let defaults: toml::Value = toml::from_str(&Settings::default().to_toml().unwrap()).unwrap();
    for (key, default) in documented {
        let real = key.split('.').try_fold(&defaults, |value, name| value.get(name));
        let real = match real {
            Some(toml::Value::String(text)) => format!("`{text}`"),
            Some(toml::Value::Boolean(yes)) => format!("`{yes}`"),
            Some(toml::Value::Array(values)) if values.is_empty() => "–".to_owned(),
            Some(toml::Value::Integer(number)) => match default {
                "cores" => {
                    assert_eq!(*number as usize, machine::cores(), "{key}");
                    continue;
                }
                "`25000`, or what the limit of open files leaves" => {
                    assert_eq!(*number as usize, machine::connections(), "{key}");
                    continue;
                }
                "an eighth of memory" => {
                    assert_eq!(*number as usize, machine::memory_bytes() / 8, "{key}");
                    continue;
                }
                "a sixteenth of memory, at least `64 MiB`" => {
                    assert_eq!(*number as usize, (machine::memory_bytes() / 16).max(64 << 20), "{key}");
                    continue;
                }
                _ => {
                    let bytes = texts::parse_bytes(default.trim_matches('`'));
                    assert_eq!(bytes, Some(*number as u64), "{key}");
                    continue;
                }
            },
            Some(other) => panic!("{key} has the default {other}"),
            None => "–".to_owned(),
        };
        assert_eq!(default, real, "{key}");
    }
}

/// The subject `b:alice` of an issuer without a label would go by the name of the subject `alice` of the issuer `b`.
#[test]
fn callers_of_several_issuers_are_distinguished_by_labels() {
    let issuers = |labels: &[Option<&str>]| {
        let table = |(n, label): (usize, &Option<&str>)| {
            let label = label.map(|label| format!("label = \"{label}\"\n")).unwrap_or_default();
            format!("[[access.jwt.issuers]]\nissuer = \"i{n}\"\naudience = \"a\"\njwks_file = \"f\"\n{label}")
        };
        load(&labels.iter().enumerate().map(table).collect::<String>(), &[], &[])
    };
    assert!(issuers(&[None]).is_ok() && issuers(&[Some("a"), Some("b")]).is_ok());
    for bad in [&[None, Some("b")][..], &[Some("a"), Some("a")], &[None, None]] {
        assert_eq!(issuers(bad).unwrap_err().len(), 1, "{bad:?}");
    }
}
