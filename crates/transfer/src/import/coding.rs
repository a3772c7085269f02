//! The compression of files: gzip, zstd or none.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

const BUFFER_BYTES: usize = 64 << 10;
/// RFC 1952, section 2.3.1.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// RFC 8878, section 3.1.1.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Section 3.1.2: the beginning of a frame without data, except for the four lowest bits. pzstd writes one before each
/// frame, with its length.
const ZSTD_SKIPPED_MAGIC: u32 = 0x184d_2a50;

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileCoding {
    Plain,
    Gzip,
    Zstd,
}

impl FileCoding {
    const COMPRESSED: [(Self, &str); 2] = [(Self::Gzip, ".gz"), (Self::Zstd, ".zst")];

    /// The coding by a file's name.
    pub fn by_name(path: &Path) -> Self {
        let name = path.as_os_str().to_string_lossy().to_ascii_lowercase();
        Self::split(&name).0
    }

    /// The coding by a name in lower case, and the name without its ending.
    pub fn split(name: &str) -> (Self, &str) {
        let ended = |(coding, ending): (Self, &str)| Some((coding, name.strip_suffix(ending)?));
        Self::COMPRESSED.into_iter().find_map(ended).unwrap_or((Self::Plain, name))
    }

    /// The coding by the first four bytes.
    fn by_head(head: &[u8]) -> Self {
        match head {
            _ if head.starts_with(&GZIP_MAGIC) => Self::Gzip,
            _ if head.starts_with(&ZSTD_MAGIC) || is_skipped(head) => Self::Zstd,
            // As much of a compressed file as a cut may leave.
            [0x1f] => Self::Gzip,
            _ if !head.is_empty() && ZSTD_MAGIC.starts_with(head) => Self::Zstd,
            _ => Self::Plain,
        }
    }

    /// Begins to write.
    pub fn encoder<W: Write>(self, out: W) -> io::Result<Encoder<W>> {
        Ok(match self {
            Self::Plain => Encoder::Plain(out),
            Self::Gzip => Encoder::Gzip(GzEncoder::new(out, Compression::fast())),
            Self::Zstd => {
                let mut encoder = zstd::Encoder::new(out, zstd::DEFAULT_COMPRESSION_LEVEL)?;
                // As in gzip: a reader detects a damaged file.
                encoder.include_checksum(true)?;
                Encoder::Zstd(encoder)
            }
        })
    }
}

/// Whether a frame begins there that readers of zstd must skip.
fn is_skipped(head: &[u8]) -> bool {
    head.first_chunk().is_some_and(|magic| u32::from_le_bytes(*magic) & !0xf == ZSTD_SKIPPED_MAGIC)
}

/// Data as it was before it was compressed, by its first bytes. Parts that were compressed one after the other are
/// read as one. The name counts for an empty file alone: no compressed file is empty.
pub(super) fn decoded(mut raw: impl Read + Send + 'static, named: FileCoding) -> io::Result<Box<dyn Read + Send>> {
    let mut head = Vec::with_capacity(ZSTD_MAGIC.len());
    raw.by_ref().take(ZSTD_MAGIC.len() as u64).read_to_end(&mut head)?;
    if head.is_empty() && named != FileCoding::Plain {
        let why = "the file is empty, but compressed files have a header: it may be truncated";
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
    }
    let coding = FileCoding::by_head(&head);
    let whole = io::Cursor::new(head).chain(raw);
    Ok(match coding {
        FileCoding::Plain => Box::new(whole),
        FileCoding::Gzip => {
            let spared = LastByteSpared(BufReader::with_capacity(BUFFER_BYTES, whole));
            Box::new(MultiGzDecoder::new(spared))
        }
        FileCoding::Zstd => Box::new(zstd::Decoder::new(whole)?),
    })
}

/// Passes on the last byte of its buffer alone.
///
/// The decoder of gzip retains text that does not fit into its caller's memory. It returns this text only when it gets
/// input, and takes no byte meanwhile. If it had all bytes of a pipe, it would wait for the pipe's writer first. The
/// last byte of a flushed block has no text.
struct LastByteSpared<R>(BufReader<R>);

impl<R: Read> Read for LastByteSpared<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<R: Read> BufRead for LastByteSpared<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        Ok(match self.0.fill_buf()? {
            [others @ .., _] if !others.is_empty() => others,
            at_most_one => at_most_one,
        })
    }

    fn consume(&mut self, bytes: usize) {
        self.0.consume(bytes);
    }
}

/// The encoder between a writer and its destination.
pub(crate) enum Encoder<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    Zstd(zstd::Encoder<'static, W>),
}

impl<W: Write> Encoder<W> {
    /// Ends a part. All readers accept consecutive parts as one file, so the file can also be cut at the end of any
    /// part.
    pub fn finish(self) -> io::Result<W> {
        match self {
            Self::Plain(out) => Ok(out),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Encoder<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
            Self::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Gzip(encoder) => encoder.flush(),
            Self::Zstd(encoder) => encoder.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(coding: FileCoding, text: &str) -> Vec<u8> {
        let mut encoder = coding.encoder(Vec::new()).unwrap();
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn text(bytes: &[u8]) -> io::Result<String> {
        io::read_to_string(decoded(io::Cursor::new(bytes.to_vec()), FileCoding::Plain)?)
    }

    #[test]
    fn file_names_select_the_compression() {
        for (name, coding, plain) in [
            ("a.csv.gz", FileCoding::Gzip, "a.csv"),
            ("a.ndjson.zst", FileCoding::Zstd, "a.ndjson"),
            ("a.zstd", FileCoding::Plain, "a.zstd"),
            ("-", FileCoding::Plain, "-"),
        ] {
            assert_eq!(FileCoding::split(name), (coding, plain));
            assert_eq!(FileCoding::by_name(Path::new(&name.to_ascii_uppercase())), coding, "{name}");
        }
    }

    #[test]
    fn compressed_data_is_detected_by_its_first_bytes() {
        for plain in ["", "a", "plain", "(\u{1f}"] {
            assert_eq!(text(plain.as_bytes()).unwrap(), plain);
        }
        for coding in [FileCoding::Gzip, FileCoding::Zstd] {
            let parts = [encoded(coding, "first "), encoded(coding, ""), encoded(coding, "second")].concat();
            assert_eq!(text(&parts).unwrap(), "first second", "{coding:?}");
            let cut_off = text(&parts[..parts.len() - 3]);
            assert!(cut_off.is_err(), "{coding:?}: {cut_off:?}");
            let mut damaged = encoded(coding, "values that are long enough to be damaged in the middle of them");
            let middle = damaged.len() / 2;
            damaged[middle] ^= 1;
            assert!(text(&damaged).is_err(), "{coding:?}");
        }
    }

    /// As pzstd writes them: each frame follows one with its length.
    #[test]
    fn frames_without_data_are_skipped() {
        let skipped = |low: u8| [&[0x50 | low, 0x2a, 0x4d, 0x18, 4, 0, 0, 0][..], b"\n,\"{"].concat();
        for low in [0, 7, 0xf] {
            let (first, second) = (encoded(FileCoding::Zstd, "first "), encoded(FileCoding::Zstd, "second"));
            let file = [skipped(low), first, skipped(low), skipped(0), second, skipped(1)].concat();
            assert_eq!(text(&file).unwrap(), "first second");
            assert_eq!(text(&skipped(low)).unwrap(), "");
            assert!(text(&file[..file.len() - 1]).is_err() && text(&skipped(low)[..6]).is_err());
        }
        assert!(decoded(io::empty(), FileCoding::Gzip).is_err());
        for plain in ["P*M", "P*M\u{19}"] {
            assert_eq!(text(plain.as_bytes()).unwrap(), plain);
        }
    }

    /// A pipe whose writer has flushed its text and continues later.
    struct Open(io::Cursor<Vec<u8>>);

    impl Read for Open {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(io::Error::other("the reader would wait")),
                bytes => Ok(bytes),
            }
        }
    }

    #[test]
    fn flushed_text_is_read_before_more_bytes_are_awaited() {
        for (coding, bytes) in [FileCoding::Plain, FileCoding::Gzip, FileCoding::Zstd]
            .into_iter()
            .flat_map(|coding| [20, 5_000, 32 << 10, 200_000].map(|bytes| (coding, bytes)))
        {
            let text: Vec<u8> = b"u,1760000000000000000,x\n".iter().copied().cycle().take(bytes).collect();
            let mut encoder = coding.encoder(Vec::new()).unwrap();
            encoder.write_all(&text).unwrap();
            encoder.flush().unwrap();
            let flushed = match &encoder {
                Encoder::Plain(out) => out.clone(),
                Encoder::Gzip(encoder) => encoder.get_ref().clone(),
                Encoder::Zstd(encoder) => encoder.get_ref().clone(),
            };
            for step in [1, 4, 1_000, BUFFER_BYTES] {
                let mut decoder = decoded(Open(io::Cursor::new(flushed.clone())), coding).unwrap();
                let (mut found, mut buffer) = (Vec::new(), vec![0; step]);
                while let Ok(read) = decoder.read(&mut buffer) {
                    assert!(read > 0, "the end of an open pipe");
                    found.extend_from_slice(&buffer[..read]);
                }
                assert!(found == text, "{coding:?}: {} of {bytes} bytes in steps of {step}", found.len());
            }
        }
    }
}
