//! Relative links in Markdown files, and in docs/llms.txt.

use crate::sources::{files, root};

/// Every relative link of a Markdown file that leads to no file or folder, and every link to a
/// heading that is not there.
pub fn broken() -> Vec<String> {
    let pages = [files("", "md"), files("docs", "txt")].concat();
    assert!(!pages.is_empty(), "the walk found no Markdown");
    let mut broken = Vec::new();
    for page in &pages {
        for link in links(&page.text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let here = root().join(&page.path);
            let target = if file.is_empty() { here } else { here.parent().unwrap().join(file) };
            let known = target.exists()
                && (heading.is_empty()
                    || std::fs::read_to_string(&target).is_ok_and(|text| anchors(&text).any(|a| a == heading)));
            if !known {
                broken.push(format!("{}: {link} leads nowhere", page.path));
            }
        }
    }
    broken
}

/// The targets of inline links outside code blocks.
fn links(text: &str) -> Vec<String> {
    let mut in_block = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        }
        if in_block {
            continue;
        }
        for (at, _) in line.match_indices("](") {
            if let Some(end) = line[at + 2..].find(')') {
                found.push(line[at + 2..at + 2 + end].to_owned());
            }
        }
    }
    found
}

/// The anchors of a page's headings: lower case, spaces to hyphens, other marks dropped.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter(|line| line.starts_with('#')).map(|line| {
        line.trim_start_matches('#')
            .trim()
            .chars()
            .filter_map(|c| match c {
                ' ' => Some('-'),
                c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
                _ => None,
            })
            .collect()
    })
}
