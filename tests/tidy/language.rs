//! Texts that users and operators read are plain English: see [`crate::phrases`] for the banned phrases.

use std::collections::BTreeMap;

use crate::phrases::banned;
use crate::sources::{Source, files, package_files, root};

const SENTENCE_WORDS_MAX: usize = 40;
const LINE_CHARS_MAX: usize = 120;
/// A page may have this many banned phrases per 1,000 words: quotations, and words with another meaning.
const PHRASES_PER_THOUSAND_WORDS: usize = 2;

/// Pages that are not clean yet, with their counts. A count may only fall.
const DEBT: &str = "tests/tidy/language.txt";
/// Set to any value, it writes the present counts to [`DEBT`].
const WRITE_VARIABLE: &str = "LISTSTORE_WRITE_LANGUAGE_DEBT";

/// Banned phrases in a page outside code, sentences that are too long, and lines that are too long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    phrases: usize,
    sentences: usize,
    lines: usize,
}

/// Banned phrases in the string literals of the sources, except those of unit tests.
pub fn unclear_messages() -> Vec<String> {
    let is_test = |source: &Source| source.path.ends_with("tests.rs") || source.path.contains("/tests/");
    package_files()
        .iter()
        .filter(|source| !is_test(source))
        .flat_map(|source| {
            let code = source.text.split("\nmod tests {").next().unwrap_or_default();
            let texts = literals(code).into_iter().filter(|(_, text)| text.contains(' '));
            texts
                .flat_map(|(line, text)| complaints(&source.path, line, &without_placeholders(&text)))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Banned phrases in the help pages of all commands.
pub fn unclear_help() -> Vec<String> {
    of_lines(&files("tests/cli", "txt"), |_| false)
}

/// Banned phrases in the console's pages, except in their comments.
pub fn unclear_console() -> Vec<String> {
    let pages: Vec<_> =
        ["js", "html"].into_iter().flat_map(|extension| files("src/console/static", extension)).collect();
    let own: Vec<_> = pages.into_iter().filter(|page| !page.path.contains("/vendor/")).collect();
    of_lines(&own, |line| ["//", "/*", "*"].iter().any(|start| line.starts_with(start)))
}

fn of_lines(sources: &[Source], is_comment: impl Fn(&str) -> bool) -> Vec<String> {
    assert!(!sources.is_empty(), "the walk found no texts");
    let lines =
        sources.iter().flat_map(|source| source.text.lines().enumerate().map(move |(i, line)| (source, i, line)));
    lines
        .filter(|(_, _, line)| !is_comment(line.trim_start()))
        .flat_map(|(source, i, line)| complaints(&source.path, i + 1, line.split(" // ").next().unwrap_or_default()))
        .collect()
}

fn complaints(path: &str, line: usize, text: &str) -> Vec<String> {
    banned(text).into_iter().map(|(found, instead)| format!("{path}:{line}: `{found}`: write {instead}")).collect()
}

/// Pages of Markdown that have more banned phrases, long sentences or long lines than allowed.
pub fn unclear_pages() -> Vec<String> {
    let pages = files("", "md");
    assert!(!pages.is_empty(), "the walk found no Markdown");
    let counted: Vec<_> = pages.iter().map(|page| (page.path.as_str(), Page::read(&page.text))).collect();
    let debt = root().join(DEBT);
    if std::env::var_os(WRITE_VARIABLE).is_some() {
        let lines = counted.iter().filter(|(_, page)| page.excess(Counts::default()).is_some());
        let lines = lines.map(|(path, Page { counts, .. })| {
            format!("{} {} {} {path}\n", counts.phrases, counts.sentences, counts.lines)
        });
        std::fs::write(&debt, lines.collect::<String>()).unwrap();
    }
    let text = std::fs::read_to_string(&debt).unwrap();
    let allowed: BTreeMap<_, _> = text.lines().map(known_debt).collect();
    counted
        .iter()
        .filter_map(|(path, page)| {
            let allowed = allowed.get(path).copied().unwrap_or_default();
            page.excess(allowed).map(|excess| format!("{path}: {excess}; {}", page.examples.join(", ")))
        })
        .collect()
}

fn known_debt(line: &str) -> (&str, Counts) {
    let cells: Vec<_> = line.splitn(4, ' ').collect();
    let [phrases, sentences, lines, path] = cells[..] else { panic!("{DEBT}: malformed line {line:?}") };
    let number = |cell: &str| cell.parse().unwrap();
    (path, Counts { phrases: number(phrases), sentences: number(sentences), lines: number(lines) })
}

struct Page {
    counts: Counts,
    words: usize,
    /// Some of the counted phrases.
    examples: Vec<String>,
}

impl Page {
    fn read(text: &str) -> Self {
        let mut page = Self { counts: Counts::default(), words: 0, examples: Vec::new() };
        let (mut is_code, mut paragraph) = (false, String::new());
        for (i, line) in text.lines().enumerate() {
            let start = line.trim_start();
            if start.starts_with("```") {
                is_code = !is_code;
                continue;
            }
            if is_code {
                continue;
            }
            let prose = without_code_and_targets(line);
            page.words += prose.split_whitespace().count();
            for (found, instead) in banned(&prose) {
                page.counts.phrases += 1;
                page.examples.push(format!("line {}: `{found}` (write {instead})", i + 1));
            }
            if !start.starts_with('|') && line.chars().count() > LINE_CHARS_MAX && !line.contains("://") {
                page.counts.lines += 1;
            }
            let is_item = start.starts_with("- ") || start.starts_with("* ") || starts_with_number(start);
            let is_break = start.is_empty() || start.starts_with(['|', '#', '>']);
            if is_item || is_break {
                page.end(&mut paragraph);
            }
            if !is_break {
                paragraph.push_str(prose.trim());
                paragraph.push(' ');
            }
        }
        page.end(&mut paragraph);
        page.examples.truncate(5);
        page
    }

    /// Counts the long sentences of a paragraph, and empties it.
    fn end(&mut self, paragraph: &mut String) {
        let mut words = 0;
        for word in paragraph.split_whitespace() {
            words += 1;
            if word.ends_with(['.', '!', '?']) {
                self.counts.sentences += usize::from(words > SENTENCE_WORDS_MAX);
                words = 0;
            }
        }
        self.counts.sentences += usize::from(words > SENTENCE_WORDS_MAX);
        paragraph.clear();
    }

    fn excess(&self, allowed: Counts) -> Option<String> {
        let phrases_max = allowed.phrases.max((self.words * PHRASES_PER_THOUSAND_WORDS).div_ceil(1000));
        let Counts { phrases, sentences, lines } = self.counts;
        let is_fine = phrases <= phrases_max && sentences <= allowed.sentences && lines <= allowed.lines;
        (!is_fine).then(|| {
            format!(
                "{phrases} banned phrases (at most {phrases_max}), {sentences} sentences of more than \
                 {SENTENCE_WORDS_MAX} words (at most {}), {lines} lines of more than {LINE_CHARS_MAX} characters (at \
                 most {})",
                allowed.sentences, allowed.lines
            )
        })
    }
}

fn starts_with_number(line: &str) -> bool {
    line.split_once(". ").is_some_and(|(number, _)| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
}

/// A line of Markdown without code spans and targets of links.
fn without_code_and_targets(line: &str) -> String {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("");
    let mut parts = prose.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push(']');
        text.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    text
}

/// A format string without its placeholders, which have names of variables.
fn without_placeholders(text: &str) -> String {
    let mut parts = text.split('{');
    let mut prose = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        prose.push_str(part.split_once('}').map_or(part, |(_, rest)| rest));
    }
    prose
}

/// The string literals of a Rust source, each with the line where it begins.
fn literals(code: &str) -> Vec<(usize, String)> {
    let chars: Vec<char> = code.chars().collect();
    let (mut found, mut at, mut line) = (Vec::new(), 0, 1);
    let is_ahead = |at: usize, text: &str| text.chars().enumerate().all(|(i, c)| chars.get(at + i) == Some(&c));
    while at < chars.len() {
        let next = match chars[at] {
            '/' if is_ahead(at, "//") => (at..chars.len()).find(|i| chars[*i] == '\n').unwrap_or(chars.len()),
            'r' if at == 0 || !is_name(chars[at - 1]) || chars[at - 1] == 'b' => match raw_end(&chars, at) {
                Some((from, to, end)) => {
                    found.push((line, chars[from..to].iter().collect()));
                    end
                }
                None => at + 1,
            },
            '\'' if chars.get(at + 1) == Some(&'\\') => {
                (at + 3..chars.len()).find(|i| chars[*i] == '\'').map_or(chars.len(), |i| i + 1)
            }
            '\'' if chars.get(at + 2) == Some(&'\'') => at + 3,
            '"' => {
                let (text, end) = quoted(&chars, at + 1);
                found.push((line, text));
                end
            }
            _ => at + 1,
        };
        line += chars[at..next].iter().filter(|c| **c == '\n').count();
        at = next;
    }
    found
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where the text of a raw literal begins and ends, and where the literal ends.
fn raw_end(chars: &[char], at: usize) -> Option<(usize, usize, usize)> {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    let from = at + 2 + hashes;
    if chars.get(from - 1) != Some(&'"') {
        return None;
    }
    let closes = |i: &usize| chars[*i] == '"' && chars[i + 1..].iter().take_while(|c| **c == '#').count() >= hashes;
    let to = (from..chars.len()).find(closes)?;
    Some((from, to, to + 1 + hashes))
}

/// A literal's text, with its line breaks and escapes as they are read, and where it ends.
fn quoted(chars: &[char], mut at: usize) -> (String, usize) {
    let mut text = String::new();
    while at < chars.len() && chars[at] != '"' {
        let is_escape = chars[at] == '\\';
        match chars.get(at + 1) {
            Some('\n') if is_escape => {
                at = (at + 1..chars.len()).find(|i| !chars[*i].is_whitespace()).unwrap_or(chars.len());
            }
            Some(escaped) if is_escape => {
                text.push(if *escaped == 'n' { ' ' } else { *escaped });
                at += 2;
            }
            _ => {
                text.push(chars[at]);
                at += 1;
            }
        }
    }
    (text, at + 1)
}

#[test]
fn literals_are_read_as_the_compiler_reads_them() {
    let code = concat!(
        "let a = \"one \\\n         two\"; // \"no\"\n",
        "let b = ('\"', '\\'', \"it's \\\"three\\\"\");\n",
        "fn f<'a>(x: &'a str) { r#\"four \"five\"\"# }\n"
    );
    let expected = [(1, "one two"), (3, "it's \"three\""), (4, "four \"five\"")];
    assert_eq!(literals(code), expected.map(|(line, text)| (line, text.to_owned())));
}

#[test]
fn pages_are_counted_outside_of_code() {
    let sentence = "word ".repeat(41);
    let text = format!(
        "# Told\n\nIt tells `whoever` [of](anew.md) it.\n\n```\nnobody\n```\n\n- {sentence}end.\n\n| {sentence}|\n"
    );
    let page = Page::read(&text);
    assert_eq!(page.counts, Counts { phrases: 2, sentences: 1, lines: 1 });
    assert!(page.excess(Counts::default()).is_some());
    assert_eq!(page.excess(page.counts), None);
}
