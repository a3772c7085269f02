//! Reads JSON in the form of nearly all bodies of list operations: strings without escapes, and integers. It allocates
//! nothing.
//!
//! Any other form ends it, and a complete reader parses the text and reports mistakes.

/// Stands in a text, always between two characters.
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Whether nothing but white space is left.
    pub fn is_done(&mut self) -> bool {
        self.skip_space();
        self.at == self.text.len()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// RFC 8259, section 2: the characters that may be between tokens.
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Moves past a token.
    pub fn token(&mut self, token: u8) -> Option<()> {
        self.skip_space();
        (self.peek()? == token).then(|| self.at += 1)
    }

    /// A string or an integer.
    pub fn scalar(&mut self) -> Option<&'a str> {
        self.skip_space();
        if self.peek()? == b'"' { self.string() } else { self.integer() }
    }

    /// Skips a text, if it comes next, byte for byte.
    pub fn exactly(&mut self, text: &str) -> bool {
        let is_next = self.rest().starts_with(text.as_bytes());
        self.at += if is_next { text.len() } else { 0 };
        is_next
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// A string without escapes, with its quotation marks.
    pub fn string(&mut self) -> Option<&'a str> {
        self.token(b'"')?;
        let (start, rest) = (self.at - 1, self.rest());
        let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..b' '))?;
        if rest[end] != b'"' {
            return None;
        }
        self.at += end + 1;
        self.text.get(start..self.at)
    }

    /// RFC 8259, section 6, without fraction and exponent.
    pub fn integer(&mut self) -> Option<&'a str> {
        let start = self.at;
        if self.peek()? == b'-' {
            self.at += 1;
        }
        let rest = self.rest();
        let digits = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        self.at += digits;
        let sound = digits > 0 && (digits == 1 || rest[0] != b'0');
        // A following character of the number makes it no token.
        sound.then(|| self.text.get(start..self.at))?
    }
}
