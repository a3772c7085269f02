//! Finds environment variables that look like ours and have no effect.

use std::collections::BTreeSet;

use super::config;

const PREFIX: &str = "LISTSTORE_";
/// Names that are not settings: variables of tests, and of the client libraries.
const OTHERS: [&str; 3] = ["LISTSTORE_TOKEN", "LISTSTORE_TEST_", "LISTSTORE_WRITE_"];

/// Warnings about variables that begin with `LISTSTORE_` and that no command reads. The settings check the names of
/// settings, which have two underscores.
pub(super) fn unknown(commands: &clap::Command) -> Vec<String> {
    let mut known = BTreeSet::new();
    collect(commands, &mut known);
    let names = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let unknown = names.filter(|(name, value)| {
        let is_ours = name.starts_with(PREFIX) && !name.starts_with("LISTSTORE__");
        let is_other = OTHERS.iter().any(|other| name.starts_with(other));
        is_ours && !is_other && !known.contains(name) && !is_of_kubernetes(name, &value.to_string_lossy())
    });
    let mut unknown: Vec<_> = unknown.map(|(name, _)| warning(&name, &known)).collect();
    unknown.sort();
    unknown
}

/// The variables that options are read from.
fn collect(command: &clap::Command, known: &mut BTreeSet<String>) {
    let variables = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str());
    known.extend(variables.map(str::to_owned));
    command.get_subcommands().for_each(|command| collect(command, known));
}

/// Whether Kubernetes set it for a Service, whose name may have the same prefix.
fn is_of_kubernetes(name: &str, value: &str) -> bool {
    name.contains("_SERVICE_") || name.contains("_PORT_") || value.starts_with("tcp://") || value.starts_with("udp://")
}

fn warning(name: &str, known: &BTreeSet<String>) -> String {
    let plain = |name: &str| name.replace('_', "");
    let settings = config::variables().find(|setting| plain(setting) == plain(name));
    let nearest = known.iter().min_by_key(|known| strsim::osa_distance(known, name));
    let nearest = nearest.filter(|known| strsim::osa_distance(known, name) <= 3).cloned();
    let hint = match settings.or(nearest) {
        Some(meant) => format!("did you mean {meant}?"),
        None => "settings have two underscores, such as LISTSTORE__HTTP__LISTEN".to_owned(),
    };
    format!("the environment variable {name} has no effect: {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_names_the_intended_variable() {
        let known = BTreeSet::from(["LISTSTORE_URL".to_owned(), "LISTSTORE_USER".to_owned()]);
        for (name, meant) in [
            ("LISTSTORE_HTTP_LISTEN", "did you mean LISTSTORE__HTTP__LISTEN?"),
            ("LISTSTORE_URI", "did you mean LISTSTORE_URL?"),
            ("LISTSTORE_SOMETHING_ELSE", "two underscores"),
        ] {
            assert!(warning(name, &known).contains(meant), "{name}: {}", warning(name, &known));
        }
        assert!(is_of_kubernetes("LISTSTORE_SERVICE_HOST", "10.0.0.1"));
        assert!(is_of_kubernetes("LISTSTORE_PORT", "tcp://10.0.0.1:8080"));
        assert!(!is_of_kubernetes("LISTSTORE_HTTP_PORT", "8081"));
    }
}
