//! The chunked transfer coding (RFC 9112, section 7.1), read strictly. Sizes have only digits, and lines end with CRLF.
//! The content of extensions and trailers is ignored.

use bytes::{Buf, Bytes, BytesMut};

use super::Refusal;
use super::head;

/// Sizes with more digits are refused. Real bodies are far smaller.
const SIZE_DIGITS_MAX: usize = 15;
/// A chunk's size with its extensions, which practically no client uses.
const LINE_BYTES_MAX: usize = 256;
/// All trailers together.
const TRAILERS_BYTES_MAX: usize = 4 << 10;

pub(super) struct Chunked {
    bytes_max: usize,
    body: BytesMut,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    Size,
    /// This many bytes of a chunk are missing.
    Data(usize),
    DataEnd,
    Trailers,
}

pub(super) enum Decoded {
    Whole(Bytes),
    Partial,
    TooLarge,
}

impl Chunked {
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, body: BytesMut::new(), state: State::Size }
    }

    /// The length of the decoded body.
    pub fn len(&self) -> usize {
        self.body.len()
    }

    /// Decodes as much of the body as the input contains.
    pub fn decode(&mut self, input: &mut BytesMut) -> Result<Decoded, Refusal> {
        loop {
            match self.state {
                State::Size => {
                    let Some(line) = line(input, LINE_BYTES_MAX)? else { return Ok(Decoded::Partial) };
                    let size = size(&line)?;
                    if size > (self.bytes_max - self.body.len()) as u64 {
                        return Ok(Decoded::TooLarge);
                    }
                    self.state = if size == 0 { State::Trailers } else { State::Data(size as usize) };
                }
                State::Data(missing) => {
                    let there = missing.min(input.len());
                    self.body.extend_from_slice(&input[..there]);
                    input.advance(there);
                    if there < missing {
                        self.state = State::Data(missing - there);
                        return Ok(Decoded::Partial);
                    }
                    self.state = State::DataEnd;
                }
                State::DataEnd => {
                    match input.get(..2) {
                        Some(b"\r\n") => input.advance(2),
                        None if b"\r\n".starts_with(input) => return Ok(Decoded::Partial),
                        _ => return Err(Refusal::Malformed("a chunk of the body is longer than its declared size")),
                    }
                    self.state = State::Size;
                }
                State::Trailers => {
                    let Some(bytes) = head::trailers(input)? else {
                        if input.len() > TRAILERS_BYTES_MAX {
                            return Err(Refusal::Malformed("the body's trailers are too long"));
                        }
                        return Ok(Decoded::Partial);
                    };
                    input.advance(bytes);
                    return Ok(Decoded::Whole(std::mem::take(&mut self.body).freeze()));
                }
            }
        }
    }
}

/// Takes a complete line without its end.
fn line(input: &mut BytesMut, bytes_max: usize) -> Result<Option<BytesMut>, Refusal> {
    let Some(end) = input.iter().take(bytes_max).position(|byte| *byte == b'\n') else {
        return if input.len() < bytes_max { Ok(None) } else { Err(Refusal::Malformed("a chunk's size is too long")) };
    };
    let mut line = input.split_to(end + 1);
    if !line.ends_with(b"\r\n") {
        return Err(Refusal::Malformed("a chunk's size must end with CR and LF"));
    }
    line.truncate(end - 1);
    Ok(Some(line))
}

fn size(line: &[u8]) -> Result<u64, Refusal> {
    let malformed = Refusal::Malformed("a chunk's size must be hexadecimal digits");
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (digits, extension) = line.split_at(digits);
    let visible = |byte: &u8| *byte == b'\t' || (b' '..=b'~').contains(byte);
    let is_extension = extension.starts_with(b";") && extension.iter().all(visible) && ends_its_quotes(extension);
    if !(extension.is_empty() || is_extension) {
        return Err(malformed);
    }
    if digits.is_empty() || digits.len() > SIZE_DIGITS_MAX {
        return Err(malformed);
    }
    let text = std::str::from_utf8(digits).map_err(|_| malformed)?;
    u64::from_str_radix(text, 16).map_err(|_| malformed)
}

/// Whether each quoted text of an extension ends within it. Otherwise another reader may continue after the line.
fn ends_its_quotes(extension: &[u8]) -> bool {
    let (mut in_quotes, mut is_escaped) = (false, false);
    for byte in extension {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_quotes => is_escaped = true,
            b'"' => in_quotes = !in_quotes,
            _ => {}
        }
    }
    !in_quotes
}

#[cfg(test)]
mod tests {
    use super::*;

    type BodyAndRest = (Vec<u8>, Vec<u8>);

    /// Decodes a text that arrives in pieces of this size. `None` if it is too large.
    fn decoded(text: &[u8], piece: usize) -> Result<Option<BodyAndRest>, Refusal> {
        let (mut chunked, mut input) = (Chunked::new(20), BytesMut::new());
        let mut pieces = text.chunks(piece);
        loop {
            let next = pieces.next();
            input.extend_from_slice(next.unwrap_or_default());
            match chunked.decode(&mut input)? {
                Decoded::Whole(body) => {
                    return Ok(Some((
                        body.to_vec(),
                        [&input[..], &pieces.flatten().copied().collect::<Vec<_>>()].concat(),
                    )));
                }
                Decoded::TooLarge => return Ok(None),
                Decoded::Partial if next.is_none() => return Err(Refusal::HeadTimeout),
                Decoded::Partial => {}
            }
        }
    }

    #[test]
    fn chunks_are_joined_and_the_following_bytes_remain() {
        let text = b"5\r\nhello\r\n00A;x=\"\\\"y\" ; z\r\n, world...\r\n0\r\nX-Sum: 1\r\n\r\nGET";
        for piece in 1..text.len() {
            let (body, rest) = decoded(text, piece).unwrap().unwrap();
            assert_eq!((&body[..], &rest[..]), (&b"hello, world..."[..], &b"GET"[..]), "{piece}");
        }
    }

    #[test]
    fn a_body_beyond_the_bound_is_detected_by_its_chunk_sizes() {
        for text in ["15\r\n", "14\r\n01234567890123456789\r\n1\r\n", "fffffffffffffff\r\n"] {
            assert_eq!(decoded(text.as_bytes(), 1), Ok(None), "{text}");
        }
        assert!(decoded(b"14\r\n01234567890123456789\r\n0\r\n\r\n", 1).unwrap().is_some());
    }

    #[test]
    fn ambiguous_input_is_refused() {
        let long = format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(LINE_BYTES_MAX));
        let trailers = format!("0\r\n{}\r\n", "X-Long: yyyyyyyyyyyyyyyy\r\n".repeat(1_000));
        for text in [
            "\r\n",
            ";\r\n",
            " 5\r\nhello\r\n",
            "5 \r\nhello\r\n",
            "5 ;x\r\nhello\r\n",
            "+5\r\nhello\r\n",
            "-5\r\nhello\r\n",
            "0x5\r\nhello\r\n",
            "5_0\r\n",
            "5\nhello\r\n",
            "5\rhello\r\n",
            "5;a\nb\r\nhello\r\n",
            "5;a\rb\r\nhello\r\n",
            "5;a\0\r\nhello\r\n",
            "5;a=\"\r\nhello\r\n",
            "5;a=\"b\" c=\"\r\nhello\r\n",
            "5;a=\"b\\\"\r\nhello\r\n",
            "5;\u{e9}\r\nhello\r\n",
            "5\r\nhello0\r\n\r\n",
            "5\r\nhello\n0\r\n\r\n",
            "5\r\nhello\r0\r\n\r\n",
            "5\r\nhelloworld\r\n",
            "10000000000000000\r\n",
            "fffffffffffffffffffff\r\n",
            "0\r\nno trailer\r\n\r\n",
            "0\r\nX : y\r\n\r\n",
            "0\r\nX: y\n\r\n",
            "0\r\nX: y\r\n z\r\n\r\n",
            "0\r\n\n",
            "0\r\nX: \0\r\n\r\n",
            &long,
            &trailers,
        ] {
            for piece in [1, text.len()] {
                let found = decoded(text.as_bytes(), piece);
                assert!(matches!(found, Err(Refusal::Malformed(_))), "{text:?} by {piece}: {found:?}");
            }
        }
    }
}
