//! The error codes with their causes and remedies, which the page `/docs/errors` shows.

use serde_json::{Value, json};

use crate::api::problem::ErrorCode;

/// The page that explains the codes.
const PAGE: &str = include_str!("../../../docs/reference/errors.md");

/// One object for each code, in the order of their statuses.
pub(super) fn table() -> Vec<Value> {
    let described = |[name, _, cause, remedy, _]: [&str; 5]| {
        let row = ErrorCode::table().iter().find(|row| row.name == name.trim_matches('`'))?;
        Some(json!({
            "code": row.name,
            "status": row.status,
            "title": row.title,
            "cause": cause,
            "remedy": remedy,
            "retryable": row.retryable,
        }))
    };
    rows().filter_map(described).collect()
}

/// The rows of the page's table: code, status, cause, remedy, and whether the request can succeed later.
fn rows() -> impl Iterator<Item = [&'static str; 5]> {
    let lines = PAGE.split_once("\n## Codes\n").map_or("", |(_, codes)| codes).lines();
    lines.filter_map(|line| {
        let row = line.strip_prefix("| ")?.strip_suffix(" |")?;
        let cells: Vec<_> = row.splitn(5, " | ").collect();
        row.starts_with('`').then(|| cells.try_into().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_explains_every_code_in_its_order() {
        let expected = ErrorCode::table().iter().map(|row| {
            let retryable = if row.retryable { "yes" } else { "no" };
            (format!("`{}`", row.name), row.status.to_string(), retryable)
        });
        let explained = rows().map(|[name, status, _, _, retryable]| (name.to_owned(), status.to_owned(), retryable));
        assert_eq!(explained.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        assert_eq!(table().len(), ErrorCode::COUNT);
    }

    /// The console shows code spans of these texts, and no other markup.
    #[test]
    fn causes_and_remedies_are_plain_texts() {
        for [name, _, cause, remedy, _] in rows() {
            for text in [cause, remedy] {
                assert!(!text.is_empty() && !text.contains("](") && !text.contains('*'), "{name}: {text}");
                assert_eq!(text.matches('`').count() % 2, 0, "{name}: {text}");
            }
        }
    }
}
