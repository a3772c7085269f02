//! The console: the files of a browser's pages, as they are embedded in the binary.
//!
//! It maps paths to files, and packs and names files for caches. It knows no HTTP, and its pages have no special
//! rights: they are clients of the public API.
//!
//! `static/` has the browser's files as they were written: plain ES modules, without a build step. `static/vendor/`
//! comes from packages through `scripts/vendor-console`, which keeps their versions, licences and checksums next to
//! them.

mod files;

use std::io::Write;
use std::path::Path;
use std::sync::LazyLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use ring::digest;

/// Where the console begins.
pub const CONSOLE: &str = "/console";
/// Where its page of the API's reference begins.
const REFERENCE: &str = "/docs";
const STATIC: &str = "/console/static/";
/// Every view has the same page, which looks at its own address.
const INDEX: &str = "index.html";
const TAG_DIGITS: usize = 16;

/// A file as it is sent.
#[derive(Debug)]
pub struct File {
    path: &'static str,
    pub content_type: &'static str,
    pub plain: Bytes,
    /// With gzip.
    pub packed: Bytes,
    /// Entity tags, by content: of the plain form, and of the packed one.
    pub etag: String,
    pub etag_packed: String,
}

/// A file that a path leads to.
#[derive(Debug)]
pub struct FoundFile {
    pub file: &'static File,
    /// The path names the content, so the content behind it never changes.
    pub is_immutable: bool,
}

/// All files, packed once.
struct Files {
    /// A hash of all contents. The index has it in the addresses of its files, so that a browser keeps them
    /// permanently and never mixes releases.
    tag: String,
    files: Vec<File>,
}

static FILES: LazyLock<Files> = LazyLock::new(Files::pack);

/// The file that a path leads to; none if the path is not one of the console's.
pub fn find(path: &str) -> Option<FoundFile> {
    let files = &*FILES;
    if let Some(below) = path.strip_prefix(STATIC) {
        let named = below.split_once('/').filter(|(tag, _)| is_tag(tag));
        let (tag, name) = named.unwrap_or(("", below));
        return files.get(name).map(|file| FoundFile { file, is_immutable: tag == files.tag });
    }
    let is_view = [CONSOLE, REFERENCE]
        .iter()
        .filter_map(|view| path.strip_prefix(view))
        .any(|rest| rest.is_empty() || rest.starts_with('/'));
    files.get(INDEX).filter(|_| is_view).map(|file| FoundFile { file, is_immutable: false })
}

fn is_tag(text: &str) -> bool {
    text.len() == TAG_DIGITS && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

impl Files {
    fn pack() -> Self {
        let mut all = digest::Context::new(&digest::SHA256);
        for (path, content) in files::FILES {
            all.update(path.as_bytes());
            all.update(&current(path, content));
        }
        let tag = tag_of(&all.finish());
        let files = files::FILES.iter().map(|(path, content)| File::pack(path, content, &tag)).collect();
        Self { tag, files }
    }

    fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }
}

impl File {
    fn pack(path: &'static str, content: &'static [u8], tag: &str) -> Self {
        let content = current(path, content);
        let plain = match (path, std::str::from_utf8(&content)) {
            (INDEX, Ok(text)) => Bytes::from(text.replace(STATIC, &format!("{STATIC}{tag}/"))),
            _ => content,
        };
        let own = tag_of(&digest::digest(&digest::SHA256, &plain));
        Self {
            path,
            content_type: content_type(path),
            packed: packed(&plain).unwrap_or_default(),
            plain,
            etag: format!("\"{own}\""),
            etag_packed: format!("\"{own}-gzip\""),
        }
    }
}

/// The embedded content. A debug build reads the file of its source tree, if it exists: then a changed page needs no
/// build, only a restart.
fn current(path: &str, embedded: &'static [u8]) -> Bytes {
    if cfg!(debug_assertions) {
        let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/console/static")).join(path);
        if let Ok(changed) = std::fs::read(file) {
            return changed.into();
        }
    }
    Bytes::from_static(embedded)
}

fn tag_of(digest: &digest::Digest) -> String {
    digest.as_ref().iter().take(TAG_DIGITS / 2).map(|byte| format!("{byte:02x}")).collect()
}

/// Writing into memory does not fail.
fn packed(content: &[u8]) -> std::io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content)?;
    encoder.finish().map(Bytes::from)
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" => "application/json",
        _ => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// What all files together may weigh on their way to a browser.
    const PACKED_BYTES_MAX: usize = 210_000;

    #[test]
    fn views_return_the_index_and_files_themselves() {
        for view in ["/console", "/console/", "/console/features/user/a%2Fb", "/docs", "/docs/errors/draining"] {
            let found = find(view).unwrap();
            assert_eq!((found.file.path, found.is_immutable), (INDEX, false), "{view}");
        }
        for nothing in ["/", "/consoles", "/docsx", "/console/static/", "/console/static/none.js", "/v1/console"] {
            assert!(find(nothing).is_none(), "{nothing}");
        }
        let tagged = format!("{STATIC}{}/main.js", FILES.tag);
        for (path, is_immutable) in
            [("/console/static/main.js", false), (&*tagged, true), ("/console/static/0123456789abcdef/main.js", false)]
        {
            let found = find(path).unwrap();
            assert_eq!((found.file.path, found.is_immutable), ("main.js", is_immutable), "{path}");
        }
    }

    #[test]
    fn the_index_names_its_contents() {
        let index = find(CONSOLE).unwrap().file;
        let text = std::str::from_utf8(&index.plain).unwrap();
        let named: Vec<_> = text.split(STATIC).skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        assert!(named.len() > 2, "{text}");
        for path in named {
            assert!(find(&format!("{STATIC}{path}")).is_some_and(|found| found.is_immutable), "{path}");
        }
    }

    #[test]
    fn compressed_forms_decompress_to_the_plain_ones_and_are_small() {
        let mut weight = 0;
        for file in &FILES.files {
            let mut unpacked = Vec::new();
            flate2::read::GzDecoder::new(&file.packed[..]).read_to_end(&mut unpacked).unwrap();
            assert_eq!(unpacked, file.plain, "{}", file.path);
            assert!(file.content_type != "text/plain; charset=utf-8" || file.path.ends_with(".txt"), "{}", file.path);
            weight += file.packed.len();
        }
        assert!(weight <= PACKED_BYTES_MAX, "{weight} bytes");
    }
}
