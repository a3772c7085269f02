//! Text from elsewhere, made safe to print.

use std::borrow::Cow;

/// The text without characters that would steer a terminal.
pub fn printable(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_owned();
    }
    text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// Does the same for a text of several lines. Escapes have the form of JSON, where such characters occur only in
/// strings. So a document retains its meaning.
pub fn escaped(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| if steers(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    Cow::Owned(text.chars().map(escape).collect())
}

/// The beginning of a text for an error message. A complete text can be of any length.
pub fn excerpt(text: &str) -> Cow<'_, str> {
    const CHARS_MAX: usize = 60;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_short() {
        assert_eq!(excerpt(&"é".repeat(60)), "é".repeat(60));
        assert_eq!(excerpt(&"é".repeat(61)), format!("{}…", "é".repeat(60)));
    }

    #[test]
    fn printed_text_never_controls_the_terminal() {
        assert_eq!(printable("plain é"), "plain é");
        assert_eq!(escaped("{\"a\":\n\t\"é\"}"), "{\"a\":\n\t\"é\"}");
        let json = "{\"a\":\"\u{9b}31m\u{7f}\"}";
        assert_eq!(escaped(json), r#"{"a":"\u009b31m\u007f"}"#);
        let read = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap();
        assert_eq!(read(&escaped(json)), read(json));
        assert_eq!(printable("a\u{1b}[31m\nb\u{9b}"), "a\\u{1b}[31m\\nb\\u{9b}");
    }
}
