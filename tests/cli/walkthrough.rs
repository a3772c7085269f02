//! Pages of the documentation, followed in a shell as a reader would.
//!
//! A `console` block holds commands after `$ ` and their output. In the output `…` stands for text that differs from
//! run to run, a line of `…` alone for any number of lines, and TOKEN for a page token, which a later command may use.
//! A command continues in the next line after a backslash or `|`, and within single quotes. A `sh` block holds commands
//! that the test recognizes and does not run, such as the start of the server. A block without a language is a picture.
//! Any other block is a file that the reader saves. The last code span in the line before the block is its name.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use regex::Regex;

use crate::program::{Server, liststore};

/// The prefix of the line that the shell prints after each command, with its exit status.
const END: char = '\u{1e}';

pub struct Step {
    pub command: String,
    pub expected: Vec<String>,
}

pub enum Block {
    Console(Vec<Step>),
    Setup(Vec<String>),
    File { name: String, text: String },
    Picture,
}

/// The blocks of a page in their order.
pub fn blocks(page: &str) -> Vec<Block> {
    let lines: Vec<&str> = page.lines().collect();
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        assert!(!line.starts_with([' ', '\t']) || !line.trim_start().starts_with("```"), "an indented block: {line}");
        let Some(language) = line.strip_prefix("```") else {
            at += 1;
            continue;
        };
        let length = lines[at + 1..].iter().position(|line| *line == "```").expect("a block that ends");
        let body = &lines[at + 1..at + 1 + length];
        blocks.push(match language {
            "" => Block::Picture,
            "console" => Block::Console(steps(body)),
            "sh" => Block::Setup(body.iter().map(|&line| line.to_owned()).collect()),
            _ => Block::File { name: file_name(&lines[..at]), text: body.join("\n") + "\n" },
        });
        at += length + 2;
    }
    blocks
}

fn steps(lines: &[&str]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in lines {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.to_owned(), expected: Vec::new() });
            continue;
        }
        let step = steps.last_mut().expect("a block begins with a command");
        let continues = step.command.ends_with(['\\', '|']) || step.command.matches('\'').count() % 2 == 1;
        if continues && step.expected.is_empty() {
            step.command.push('\n');
            step.command.push_str(line);
        } else {
            step.expected.push((*line).to_owned());
        }
    }
    steps
}

fn file_name(before: &[&str]) -> String {
    let line = before.iter().rfind(|line| !line.is_empty()).copied().unwrap_or_default();
    let name = line.split('`').skip(1).step_by(2).last();
    name.unwrap_or_else(|| panic!("{line:?} does not name the file that follows")).to_owned()
}

/// Compares an output with the page's, and returns its page token.
pub fn compare(lines: &[&str], expected: &[&str]) -> Option<Option<String>> {
    match expected {
        [] => lines.is_empty().then_some(None),
        ["…", rest @ ..] => (0..=lines.len()).find_map(|skipped| compare(&lines[skipped..], rest)),
        [first, rest @ ..] => {
            let (line, others) = lines.split_first()?;
            let pattern = regex::escape(first).replace('…', ".*").replace("TOKEN", r"(\S+)");
            let found = Regex::new(&format!("^{pattern}$")).unwrap().captures(line)?;
            let token = found.get(1).map(|token| token.as_str().to_owned());
            compare(others, rest).map(|later| later.or(token))
        }
    }
}

/// A shell in a directory. Its commands find the program and a server.
pub struct Shell {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Shell {
    /// `programs` are directories that come first in the search path.
    pub fn start(server: &Server, dir: &Path, programs: &[&Path], environment: &[(&str, &str)]) -> Self {
        let program = liststore(&[]);
        let mut path: Vec<_> = programs.iter().map(|dir| dir.to_path_buf()).collect();
        path.push(Path::new(program.get_program()).parent().unwrap().to_path_buf());
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
        let mut command = Command::new("sh");
        for (name, _) in program.get_envs() {
            command.env_remove(name);
        }
        command
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("LISTSTORE_URL", &server.url)
            .envs(environment.iter().copied())
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // Background processes of the shell end with it.
        let mut process = command.process_group(0).spawn().unwrap();
        let (input, output) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        Self { process, input, output }
    }

    /// Runs a command, and returns its exit status and its output of both kinds, as a terminal shows it.
    pub fn run(&mut self, command: &str) -> (String, String) {
        let script = format!("{{\n{command}\n}} </dev/null 2>&1\nprintf '\\n\\036%d\\n' $?\n");
        self.input.write_all(script.as_bytes()).unwrap();
        let mut out = String::new();
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the shell ended at {command}: {out}");
            if let Some(status) = line.strip_prefix(END) {
                out.truncate(out.len() - 1);
                return (status.trim_end().to_owned(), out);
            }
            out.push_str(&line);
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = killpg(Pid::from_raw(self.process.id() as i32), Signal::SIGKILL);
        let _ = self.process.wait();
    }
}

/// Runs the commands of a page in their order, and compares their outputs. `replace` substitutes the test's addresses
/// for the page's. Returns the commands of `sh` blocks, which it does not run.
pub fn follow(page: &str, shell: &mut Shell, dir: &Path, replace: impl Fn(&str) -> String) -> Vec<String> {
    let mut token = String::from("no token yet");
    let mut setup = Vec::new();
    for block in blocks(page) {
        match block {
            Block::Picture => {}
            Block::Setup(commands) => setup.extend(commands),
            Block::File { name, text } => {
                let file = dir.join(name);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, replace(&text)).unwrap();
            }
            Block::Console(steps) => {
                for Step { command, expected } in steps {
                    let (status, out) = shell.run(&replace(&command).replace("TOKEN", &token));
                    assert_eq!(status, "0", "{command} printed\n{out}");
                    let lines: Vec<&str> = out.lines().collect();
                    let expected: Vec<String> = expected.iter().map(|line| replace(line)).collect();
                    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
                    match compare(&lines, &expected) {
                        Some(Some(found)) => token = found,
                        Some(None) => {}
                        None => panic!("{command} printed\n{out}\nwhere the page has\n{}", expected.join("\n")),
                    }
                }
            }
        }
    }
    setup
}

#[test]
fn an_output_matches_with_its_gaps() {
    assert_eq!(compare(&["a 12 b 3"], &["a … b …"]), Some(None));
    assert_eq!(compare(&["a 12 b"], &["a … c"]), None);
    assert_eq!(compare(&["a 12"], &["a"]), None);
    assert_eq!(compare(&["a", "b"], &["a"]), None);
    assert_eq!(compare(&["a", "x", "y", "b"], &["a", "…", "b"]), Some(None));
    assert_eq!(compare(&["a", "b"], &["a", "…", "b"]), Some(None));
    assert_eq!(compare(&["a (1)"], &["a (1)"]), Some(None));
    let with_token = ["with --page-token AbC goes on"];
    assert_eq!(compare(&with_token, &["with --page-token TOKEN goes on"]), Some(Some("AbC".into())));
}

#[test]
fn blocks_are_commands_setup_files_and_pictures() {
    let page = "Save this as `a` in `b.py`:\n\n```python\nx = 1\n```\n```\n+-+\n```\n```sh\nserve\n```\n\
                ```console\n$ a \\\n  b 'c\nd'\nout\n$ e\n```\n";
    let found = blocks(page);
    let [Block::File { name, text }, Block::Picture, Block::Setup(setup), Block::Console(steps)] = &found[..] else {
        panic!("{} blocks", found.len());
    };
    assert_eq!((name.as_str(), text.as_str()), ("b.py", "x = 1\n"));
    assert_eq!(setup, &["serve"]);
    let steps: Vec<_> = steps.iter().map(|step| (step.command.as_str(), step.expected.concat())).collect();
    assert_eq!(steps, [("a \\\n  b 'c\nd'", "out".to_owned()), ("e", String::new())]);
}
