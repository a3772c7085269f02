//! The command line: one file for each command. `--help` is its reference.
//!
//! Data goes to standard output, everything else to standard error. The exit status is 0 after success, 1 after a
//! failure, and 2 for wrong usage or settings. Commands for lists and features use the HTTP API of a running server.
//! They must never open a store.

mod archive;
mod audit;
mod backup;
mod bag;
mod bag_files;
mod batch_get;
mod bench;
mod check;
mod clean;
mod completions;
mod config;
mod confirm;
mod copy;
mod definitions;
mod entities;
mod entity;
mod entity_type;
mod environment;
mod export;
mod extent;
mod failure;
mod feature;
mod feature_files;
mod find;
mod import;
mod index;
mod jobs;
mod key;
mod list;
mod log;
mod man;
mod migrate;
mod mistakes;
mod output;
mod pages;
mod parse;
mod pool;
mod purge;
mod reading;
mod ready;
mod restore;
mod serve;
mod settings;
mod version;

use std::ffi::OsString;
use std::pin::Pin;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::left_out;
use failure::Failure;

const EXAMPLES: &str = "\
Examples:
  liststore serve
  liststore feature create user story_presented --value-type string --ttl 30d
  liststore list add user story_presented u-123 --value story-9
  liststore list get user story_presented u-123

Each command's --help shows examples.";

/// A server for list features: time-ordered lists of expiring items that belong to an entity.
#[derive(Debug, Parser)]
#[command(
    name = "liststore",
    version,
    long_version = left_out::long_version(),
    after_help = EXAMPLES,
    max_term_width = 100
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Arguments),
    Check(check::Arguments),
    Backup(backup::Arguments),
    Restore(restore::Arguments),
    Migrate(migrate::Arguments),
    Feature(feature::Arguments),
    Version(version::Arguments),
    List(list::Arguments),
    Index(index::Arguments),
    Entity(Box<entity::Arguments>),
    EntityType(Box<entity_type::Arguments>),
    /// The same as `index clean`
    #[command(hide = true)]
    Clean(clean::Arguments),
    /// The same as `feature purge`
    #[command(hide = true)]
    Purge(purge::Arguments),
    Jobs(jobs::Arguments),
    Key(Box<key::Arguments>),
    Audit(audit::Arguments),
    Pool(pool::Arguments),
    Log(log::Arguments),
    Ready(ready::Arguments),
    Import(import::Arguments),
    Export(export::Arguments),
    Copy(Box<copy::Arguments>),
    Bench(Box<bench::Arguments>),
    Config(config::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

/// All commands, grouped by purpose.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Data", &["list", "entity", "import", "export", "copy"]),
    ("Definitions", &["feature", "version", "entity-type", "index"]),
    ("Server", &["serve", "check", "ready", "config", "migrate", "backup", "restore", "jobs", "pool", "log"]),
    ("Access", &["key", "audit"]),
    ("Tools", &["bench", "completions", "man", "help"]),
];

/// The command line. Its help lists the commands in groups.
fn commands() -> clap::Command {
    let mut commands = CommandLine::command();
    commands.build();
    let mut groups = String::new();
    for (heading, names) in GROUPS {
        // In clap's style of headings.
        groups.push_str(&format!("\u{1b}[1m\u{1b}[4m{heading}:\u{1b}[0m\n"));
        for name in names {
            let about = commands.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let about = wrapped(&about).join("\n               ");
            groups.push_str(&format!("  \u{1b}[1m{name:<11}\u{1b}[0m  {about}\n"));
        }
        groups.push('\n');
    }
    let template = format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}\
         \u{1b}[1m\u{1b}[4mOptions:\u{1b}[0m\n{{options}}{{after-help}}"
    );
    CommandLine::command().help_template(template)
}

/// The lines of a description next to a command's name, on a terminal of 80 columns.
fn wrapped(about: &str) -> Vec<String> {
    const WIDTH: usize = 65;
    let mut lines = vec![String::new()];
    for word in about.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Runs one command to its end.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let as_json = mistakes::wants_json(&arguments);
    let parsed = commands().try_get_matches_from(&arguments);
    let parsed = parsed.and_then(|matches| Ok((CommandLine::from_arg_matches(&matches)?, matches)));
    let command_line = match parsed {
        Ok((command_line, matches)) => match mistakes::without_effect(&matches) {
            None => command_line,
            Some(text) => return Failure::Usage(text).report(as_json),
        },
        Err(error) => {
            let error = mistakes::with_tip(error, &CommandLine::command(), &arguments);
            if error.use_stderr() && as_json {
                let text = error.render().to_string();
                let text = text.trim().trim_start_matches("error: ");
                failure::json_error(text, failure::WRONG_USAGE, None);
                return ExitCode::from(failure::WRONG_USAGE);
            }
            // Help and version come this way too, with exit status 0. If they cannot be printed, the output is closed.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(failure::WRONG_USAGE) } else { ExitCode::SUCCESS };
        }
    };
    // The log of a server contains its warnings.
    if !matches!(command_line.command, Command::Serve(_)) {
        environment::unknown(&CommandLine::command()).iter().for_each(|warning| failure::warn(warning));
    }
    match command_line.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(as_json),
    }
}

impl Command {
    fn run(self) -> Result<(), Failure> {
        match self {
            Self::Serve(arguments) => serve::run(&arguments),
            Self::Check(arguments) => check::run(&arguments),
            Self::Backup(arguments) => backup::run(&arguments),
            Self::Restore(arguments) => restore::run(&arguments),
            Self::Migrate(arguments) => migrate::run(&arguments),
            Self::Feature(arguments) => feature::run(arguments),
            Self::Version(arguments) => version::run(arguments),
            Self::List(arguments) => list::run(arguments),
            Self::Index(arguments) => index::run(arguments),
            Self::Entity(arguments) => entity::run(*arguments),
            Self::EntityType(arguments) => entity_type::run(*arguments),
            Self::Clean(arguments) => block_on(clean::run(arguments)),
            Self::Purge(arguments) => block_on(purge::run(arguments)),
            Self::Jobs(arguments) => jobs::run(arguments),
            Self::Key(arguments) => key::run(*arguments),
            Self::Audit(arguments) => audit::run(&arguments),
            Self::Pool(arguments) => pool::run(arguments),
            Self::Log(arguments) => log::run(arguments),
            Self::Ready(arguments) => ready::run(arguments),
            Self::Import(arguments) => import::run(arguments),
            Self::Export(arguments) => export::run(arguments),
            Self::Copy(arguments) => copy::run(*arguments),
            Self::Bench(arguments) => bench::run(*arguments),
            Self::Config(arguments) => config::run(&arguments),
            Self::Completions(arguments) => completions::run(&arguments),
            Self::Man(arguments) => man::run(&arguments),
        }
    }
}

/// Runs a command that uses HTTP. Its server does the work, so one thread is enough.
fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::failed(format!("cannot start: {e}")))?;
    // Boxed, since the runtime would compile each command three times otherwise.
    let command: Pin<Box<dyn Future<Output = Result<T, Failure>>>> = Box::pin(command);
    let done = runtime.block_on(command);
    // A thread that waits for standard input must not delay the exit.
    runtime.shutdown_background();
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group_of_the_help() {
        let commands = commands();
        let shown = commands.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
        let mut shown: Vec<_> = shown.chain(["help"]).collect();
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        shown.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, shown);
    }

    #[test]
    fn the_command_line_is_well_formed() {
        CommandLine::command().debug_assert();
    }

    /// A terminal usually has 80 columns. An example that it breaks cannot be pasted.
    #[test]
    fn help_fits_a_terminal() {
        const COLUMNS: usize = 80;
        fn visit(command: &mut clap::Command, path: &str, wide: &mut Vec<String>) {
            let path = format!("{path} {}", command.get_name());
            let taught = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let page = command.render_long_help().to_string();
            // clap formats the usage line, and users do not paste it.
            let lines = page.lines().filter(|line| !line.starts_with("Usage:")).chain(taught.lines());
            wide.extend(lines.filter(|line| line.chars().count() > COLUMNS).map(|line| format!("{path}: {line}")));
            for subcommand in command.get_subcommands_mut().filter(|c| c.get_name() != "help") {
                visit(subcommand, &path, wide);
            }
        }
        let (mut command, mut wide) = (commands().term_width(COLUMNS), Vec::new());
        command.build();
        visit(&mut command, "", &mut wide);
        assert!(wide.is_empty(), "{}", wide.join("\n"));
    }

    #[test]
    fn every_command_has_an_example() {
        fn visit(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example") && help.contains("liststore "), "{path}");
            command.get_subcommands().filter(|c| c.get_name() != "help").for_each(|c| visit(c, &path));
        }
        visit(&CommandLine::command(), "");
    }

    /// Programs must be able to read every printed result, always with `--output json`.
    #[test]
    fn every_command_that_prints_a_result_takes_output() {
        const EXCEPTIONS: [(&str, &str); 4] = [
            ("liststore serve", "it prints no result, but runs until it is stopped: its log has a format of its own"),
            ("liststore feature export", "what it prints is a file, of YAML, for `feature import`"),
            ("liststore completions", "what it prints is a script for a shell"),
            ("liststore man", "it writes files"),
        ];
        fn visit(command: &clap::Command, path: &str, without: &mut Vec<String>) {
            let path = format!("{path}{}{}", if path.is_empty() { "" } else { " " }, command.get_name());
            let mut subcommands = command.get_subcommands().filter(|c| c.get_name() != "help").peekable();
            if subcommands.peek().is_none() {
                let is_format = |argument: &clap::Arg| {
                    let values = argument.get_possible_values();
                    argument.get_long() == Some("output") && values.iter().any(|value| value.matches("json", false))
                };
                without.extend((!command.get_arguments().any(is_format)).then_some(path));
                return;
            }
            subcommands.for_each(|subcommand| visit(subcommand, &path, without));
        }
        let mut without = Vec::new();
        visit(&CommandLine::command(), "", &mut without);
        assert_eq!(without, EXCEPTIONS.map(|(path, _)| path), "commands that do not, and those that need not");
    }
}
