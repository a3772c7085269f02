//! Text from elsewhere, made safe to print.

/// The text without characters that would steer a terminal.
pub fn printable(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_owned();
    }
    text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_printed_steers_a_terminal() {
        assert_eq!(printable("plain é"), "plain é");
        assert_eq!(printable("a\u{1b}[31m\nb\u{9b}"), "a\\u{1b}[31m\\nb\\u{9b}");
    }
}
