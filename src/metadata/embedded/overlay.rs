//! A file that is writable for redb and never changes on disk: writes stay in memory. It serves to read a database that
//! a kill left in need of repair.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

const PAGE_BYTES: usize = 4096;

#[derive(Debug)]
pub struct Overlay {
    file: File,
    file_len: u64,
    written: Mutex<Written>,
}

#[derive(Debug)]
struct Written {
    len: u64,
    /// The pages that differ from the file's.
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Overlay {
    /// `None` if another process has the file open for writing.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = File::open(path)?;
        match file.try_lock_shared() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let file_len = file.metadata()?.len();
        Ok(Some(Self { file, file_len, written: Mutex::new(Written { len: file_len, pages: BTreeMap::new() }) }))
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A page of the file, with zeros after its end.
    fn page_of_file(&self, page: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; PAGE_BYTES];
        let start = page * PAGE_BYTES as u64;
        let len = usize::try_from(self.file_len.saturating_sub(start)).unwrap_or(PAGE_BYTES).min(PAGE_BYTES);
        self.file.read_exact_at(&mut bytes[..len], start)?;
        Ok(bytes)
    }
}

/// The parts of pages that a range of bytes covers: page, place in the page, place in the range.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        (done < len).then(|| {
            let at = offset + done as u64;
            let in_page = (at % PAGE_BYTES as u64) as usize;
            let range = done..len.min(done + PAGE_BYTES - in_page);
            done = range.end;
            (at / PAGE_BYTES as u64, in_page, range)
        })
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.written().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let written = self.written();
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > written.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (page, in_page, range) in parts(offset, out.len()) {
            let in_page = in_page..in_page + range.len();
            match written.pages.get(&page) {
                Some(bytes) => out[range].copy_from_slice(&bytes[in_page]),
                None => out[range].copy_from_slice(&self.page_of_file(page)?[in_page]),
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut written = self.written();
        // A part that is cut off and added again must read as zeros.
        for page in len / PAGE_BYTES as u64..written.len.div_ceil(PAGE_BYTES as u64) {
            let mut bytes = match written.pages.remove(&page) {
                Some(bytes) => bytes,
                None => self.page_of_file(page)?,
            };
            let kept = usize::try_from(len.saturating_sub(page * PAGE_BYTES as u64)).unwrap_or(PAGE_BYTES);
            bytes[kept.min(PAGE_BYTES)..].fill(0);
            written.pages.insert(page, bytes);
        }
        written.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.written();
        for (page, in_page, range) in parts(offset, data.len()) {
            let mut bytes = match written.pages.remove(&page) {
                Some(bytes) => bytes,
                None => self.page_of_file(page)?,
            };
            bytes[in_page..in_page + range.len()].copy_from_slice(&data[range]);
            written.pages.insert(page, bytes);
        }
        Ok(())
    }
}
