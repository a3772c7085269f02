//! Usual mistakes on the command line, with tips.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

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

/// Whether the arguments request JSON, which errors then use too.
pub(super) fn asks_for_json(arguments: &[OsString]) -> bool {
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

/// The error, with a tip if it has none.
pub(super) fn with_tip(mut error: clap::Error, all: &Command, arguments: &[OsString]) -> clap::Error {
    let has_tip = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::Suggested]
        .into_iter()
        .any(|kind| error.get(kind).is_some());
    if has_tip {
        return error;
    }
    let word = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.clone()),
        _ => None,
    };
    let (path, command) = command_of(all, arguments);
    let tip = match error.kind() {
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
    let names: Vec<_> = command.get_subcommands().map(Command::get_name).filter(|name| *name != "help").collect();
    format!("`{path}` has the commands {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_asked_for_by_the_option_alone() {
        let asks = |words: &[&str]| asks_for_json(&words.iter().map(OsString::from).collect::<Vec<_>>());
        for words in [&["x", "-o", "json"][..], &["--output", "ndjson"], &["--output=json"], &["-ojson"], &["-o=json"]]
        {
            assert!(asks(words), "{words:?}");
        }
        for words in [&["json"][..], &["-o", "table", "json"], &["--", "-o", "json"], &["--format", "json"], &["-o"]] {
            assert!(!asks(words), "{words:?}");
        }
    }
}
