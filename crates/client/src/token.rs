//! An API key, or an identity provider's token, to show to a server.

use std::fmt;

use liststore_contract::domain::key_form::is_well_formed;
use reqwest::header::HeaderValue;

/// The longest token: no header may be longer.
const BYTES_MAX: usize = 16 << 10;

/// An API key, or a token of an identity provider. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A text in the form of a key with a valid checksum, or in the form of a JSON Web Token in its compact form (RFC
    /// 7519, section 3; RFC 7515, section 7.1).
    pub fn parse(text: &str) -> Option<Self> {
        (is_well_formed(text) || has_form_of_jwt(text)).then(|| Self(text.to_owned()))
    }

    /// The value of `Authorization`.
    pub fn authorization(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// The same, marked so that no library logs it. Its characters are ASCII.
    pub fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&self.authorization()).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// Three parts in URL-safe Base64, the first of which begins a JSON object.
fn has_form_of_jwt(text: &str) -> bool {
    let is_base64 =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    text.len() <= BYTES_MAX && text.starts_with("ey") && text.split('.').count() == 3 && text.split('.').all(is_base64)
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_token_is_refused() {
        let jwt = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2lnbmVk-_";
        assert_eq!(Token::parse(jwt).map(|token| token.authorization()), Some(format!("Bearer {jwt}")));
        let long = format!("{jwt}{}", "x".repeat(BYTES_MAX));
        for bad in ["", "ey.a", "eya.b.", "eya.b.c d", "eya.b.c.d", "eya.b.c=", "xxa.b.c", "ls_short", &long] {
            assert!(Token::parse(bad).is_none(), "{bad}");
        }
    }
}
