//! Usual mistakes on the command line, with tips.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use crate::client::excerpt;

/// Commands of other programs, with the tip for a command.
const HABITS: [(&str, &[&str], &str); 7] = [
    ("list", &["show", "read", "ls", "cat"], "`liststore list get` shows items"),
    ("list", &["delete", "rm", "del"], "`liststore list remove` removes items, and `liststore list clear` all of them"),
    ("list", &["put", "insert", "append", "push"], "`liststore list add` adds items"),
    ("feature", &["show", "describe"], "`liststore feature get` shows a feature"),
    ("feature", &["rm", "remove", "drop"], "`liststore feature delete` deletes a feature"),
    ("key", &["delete", "rm", "remove"], "`liststore key revoke` revokes a key"),
    ("index", &["delete", "rm", "remove"], "`liststore index drop` drops an index"),
];

/// Options of other programs.
const OPTIONS: [(&[&str], &str); 4] = [
    (&["--json"], "--output json prints JSON"),
    (&["--yaml"], "--output json prints JSON"),
    (&["-v", "--v"], "--version prints the version of the program"),
    (&["--token", "--api-key"], "LISTSTORE_TOKEN and --token-file FILE hold the API key"),
];

/// Options of the commands that create features and versions, with the tip for the commands that update them.
const FIXED: [(&[&str], &str); 3] = [
    (
        &["--value-type"],
        "the value type of a feature never changes: create another feature, and move the items with `liststore export` \
         and `liststore import`",
    ),
    (
        &["--identity", "--keep"],
        "the identity of a version never changes: create another version, and move the items with `liststore export` \
         and `liststore import`",
    ),
    (
        &["--bucket"],
        "the bucket of a version never changes: create another version, and move the items with `liststore copy`",
    ),
];

/// Hidden names of commands, with their present names.
const MOVED: [(&str, &str); 2] = [("clean", "index clean"), ("purge", "feature purge")];

/// Whether the arguments request JSON, which errors then use too.
pub(super) fn wants_json(arguments: &[OsString]) -> bool {
    let words = arguments.iter().map(|word| word.to_string_lossy()).take_while(|word| word != "--");
    let is_json = |value: &str| matches!(value, "json" | "ndjson");
    let mut follows = false;
    for word in words {
        if follows && is_json(&word) {
            return true;
        }
        follows = matches!(&*word, "-o" | "--output");
        let joined = word.strip_prefix("--output=").or_else(|| word.strip_prefix("-o"));
        if joined.is_some_and(|value| is_json(value.trim_start_matches('='))) {
            return true;
        }
    }
    false
}

/// Options for a server at a URL, by their IDs.
const OF_URL: [(&str, &str); 4] = [
    ("url", "--url"),
    ("token_file", "--token-file"),
    ("ca_file", "--ca-file"),
    ("certificate_file", "--certificate-file"),
];

/// Returns an error if a typed option has no effect on the selected connection. Rules of clap would also apply to
/// environment variables.
pub(super) fn without_effect(matches: &ArgMatches) -> Option<String> {
    let mut leaf = matches;
    while let Some((_, matches)) = leaf.subcommand() {
        leaf = matches;
    }
    let has = |id: &str| leaf.ids().any(|known| known == id);
    let is_typed = |id: &str| has(id) && leaf.value_source(id) == Some(ValueSource::CommandLine);
    if !has("local") {
        return None;
    }
    let of_url = OF_URL.iter().filter(|(id, _)| is_typed(id)).map(|(_, option)| *option);
    let of_url = of_url.collect::<Vec<_>>().join(", ");
    match (is_typed("local"), is_typed("data_dir")) {
        (true, _) if !of_url.is_empty() => Some(format!("--local excludes {of_url}: choose one way to the server")),
        (false, true) if of_url.is_empty() => Some("--data-dir requires --local: pass --local, too".to_owned()),
        (false, true) => {
            Some(format!("--data-dir requires --local, which excludes {of_url}: choose one way to the server"))
        }
        _ => None,
    }
}

/// The error, with a tip if it has none, and with at most the beginning of what was typed.
pub(super) fn with_tip(mut error: clap::Error, all: &Command, arguments: &[OsString]) -> clap::Error {
    shorten(&mut error);
    let (path, command) = command_of(all, arguments);
    let moved = without_hidden(&mut error, command);
    if let Some(tip) = fixed(&error, &path) {
        for kind in [ContextKind::SuggestedArg, ContextKind::Suggested] {
            error.remove(kind);
        }
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        return error;
    }
    without_values(&mut error);
    let has_tip = |kind| match error.get(kind) {
        Some(ContextValue::StyledStrs(tips)) => !tips.is_empty(),
        other => other.is_some(),
    };
    let kinds = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::Suggested];
    if kinds.into_iter().any(has_tip) {
        return error;
    }
    let word = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.clone()),
        _ => None,
    };
    let tip = match error.kind() {
        ErrorKind::InvalidSubcommand if moved.is_some() => moved,
        ErrorKind::InvalidSubcommand => word(ContextKind::InvalidSubcommand).map(|word| {
            let habit = HABITS.iter().find(|(of, words, _)| path.ends_with(of) && words.contains(&&*word));
            habit.map_or_else(|| subcommands(&path, command), |(_, _, tip)| (*tip).to_owned())
        }),
        ErrorKind::UnknownArgument => word(ContextKind::InvalidArg).map(|word| {
            let known = OPTIONS.iter().find(|(words, _)| words.contains(&&*word));
            known.map_or_else(|| format!("`{path} --help` lists its options"), |(_, tip)| (*tip).to_owned())
        }),
        ErrorKind::MissingRequiredArgument => Some(format!("`{path} --help` shows examples")),
        _ => None,
    };
    if let Some(tip) = tip {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Removes clap's tip to write an unknown option as a value, `-- --json`, unless it looks like a value, such as `-5`.
fn without_values(error: &mut clap::Error) {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return };
    let is_option = word.starts_with("--") || OPTIONS.iter().any(|(words, _)| words.contains(&&**word));
    if is_option && error.kind() == ErrorKind::UnknownArgument {
        error.remove(ContextKind::Suggested);
    }
}

/// The tip for an option that would change a fixed property.
fn fixed(error: &clap::Error, path: &str) -> Option<&'static str> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_update = path.ends_with("feature update") || path.ends_with("version update");
    if error.kind() != ErrorKind::UnknownArgument || !is_update {
        return None;
    }
    FIXED.iter().find(|(options, _)| options.contains(&&**word)).map(|(_, tip)| *tip)
}

/// Shortens a long value, option or command in an error.
fn shorten(error: &mut clap::Error) {
    for kind in [ContextKind::InvalidValue, ContextKind::InvalidArg, ContextKind::InvalidSubcommand] {
        let Some(ContextValue::String(text)) = error.get(kind) else { continue };
        let short = excerpt(text).into_owned();
        error.insert(kind, ContextValue::String(short));
    }
}

/// Removes hidden commands and options from the suggestions. Returns a tip for a hidden command that was near.
fn without_hidden(error: &mut clap::Error, command: &Command) -> Option<String> {
    let mut moved = None;
    if let Some(ContextValue::Strings(names)) = error.remove(ContextKind::SuggestedSubcommand) {
        let is_hidden = |name: &str| command.find_subcommand(name).is_some_and(Command::is_hide_set);
        let (hidden, shown): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| is_hidden(name));
        let present = MOVED.iter().find(|(former, _)| hidden.iter().any(|name| name == former));
        moved = present.map(|(_, present)| format!("a similar subcommand exists: `liststore {present}`"));
        if !shown.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(shown));
        }
    }
    if let Some(ContextValue::String(option)) = error.get(ContextKind::SuggestedArg) {
        let name = option.trim_start_matches('-');
        if command.get_arguments().any(|argument| argument.is_hide_set() && argument.get_long() == Some(name)) {
            error.remove(ContextKind::SuggestedArg);
        }
    }
    moved
}

/// The command that the arguments name, and its path.
fn command_of<'a>(all: &'a Command, arguments: &[OsString]) -> (String, &'a Command) {
    let (mut path, mut command) = (all.get_name().to_owned(), all);
    for word in arguments.iter().skip(1) {
        let Some(next) = word.to_str().and_then(|word| command.find_subcommand(word)) else { break };
        path.push(' ');
        path.push_str(next.get_name());
        command = next;
    }
    (path, command)
}

fn subcommands(path: &str, command: &Command) -> String {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    let names: Vec<_> = shown.map(Command::get_name).filter(|name| *name != "help").collect();
    format!("`{path}` has the commands {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_names_are_not_suggested() {
        let all = || {
            let hidden = Command::new("clean").hide(true);
            let former = clap::Arg::new("feature").long("feature").hide(true);
            Command::new("x").subcommands([hidden, Command::new("import").arg(former)])
        };
        let reported = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(OsString::from).collect();
            let error = all().try_get_matches_from(&words).unwrap_err();
            with_tip(error, &all(), &words).to_string()
        };
        let cleen = reported(&["x", "cleen"]);
        assert!(cleen.contains("tip: a similar subcommand exists: `liststore index clean`"), "{cleen}");
        let featur = reported(&["x", "import", "--featur", "y"]);
        assert!(featur.contains("tip: `x import --help` lists its options"), "{featur}");
        assert!(!reported(&["x", "zzz"]).contains("clean"));
    }

    #[test]
    fn an_unknown_option_is_not_called_a_value() {
        let all = Command::new("x").subcommand(Command::new("get").arg(clap::Arg::new("id")));
        let reported = |option: &str| {
            let words = ["x", "get", option].map(OsString::from);
            let error = all.clone().try_get_matches_from(&words).unwrap_err();
            with_tip(error, &all, &words).to_string()
        };
        assert!(reported("--json").contains("tip: --output json prints JSON"), "{}", reported("--json"));
        assert!(reported("-v").contains("tip: --version prints"), "{}", reported("-v"));
        assert!(reported("--zzz").contains("tip: `x get --help` lists its options"), "{}", reported("--zzz"));
        assert!(reported("-5").contains("tip: to pass '-5' as a value, use '-- -5'"), "{}", reported("-5"));
    }

    #[test]
    fn a_long_word_is_not_repeated_whole() {
        let all = Command::new("x").arg(clap::Arg::new("n").value_parser(clap::value_parser!(u8)));
        let words = [OsString::from("x"), "9".repeat(5_000).into()];
        let error = all.clone().try_get_matches_from(&words).unwrap_err();
        let reported = with_tip(error, &all, &words).to_string();
        assert!(reported.contains(&format!("'{}…'", "9".repeat(60))) && reported.len() < 300, "{reported}");
    }

    #[test]
    fn options_without_effect_on_the_connection_are_refused() {
        let refused = |words: &str| {
            let words = ["liststore", "log", "get"].into_iter().chain(words.split_whitespace());
            without_effect(&super::super::commands().try_get_matches_from(words).unwrap())
        };
        for fine in ["", "--local", "--local --data-dir data", "--url http://h --token-file key --ca-file ca"] {
            assert_eq!(refused(fine), None, "{fine}");
        }
        let typed = "--url http://h --token-file key --ca-file ca --certificate-file c";
        let all = "--url, --token-file, --ca-file, --certificate-file: choose one way to the server";
        assert_eq!(refused(&format!("--local {typed}")).unwrap(), format!("--local excludes {all}"));
        let both = refused(&format!("--data-dir data {typed}")).unwrap();
        assert_eq!(both, format!("--data-dir requires --local, which excludes {all}"));
        assert_eq!(refused("--data-dir data").unwrap(), "--data-dir requires --local: pass --local, too");
    }

    #[test]
    fn only_the_option_selects_json() {
        let asks = |words: &[&str]| wants_json(&words.iter().map(OsString::from).collect::<Vec<_>>());
        for words in [&["x", "-o", "json"][..], &["--output", "ndjson"], &["--output=json"], &["-ojson"], &["-o=json"]]
        {
            assert!(asks(words), "{words:?}");
        }
        for words in [&["json"][..], &["-o", "table", "json"], &["--", "-o", "json"], &["--format", "json"], &["-o"]] {
            assert!(!asks(words), "{words:?}");
        }
    }
}
