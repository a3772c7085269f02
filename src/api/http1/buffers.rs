//! Buffers that a worker's connections share. The few used buffers stay in the processor's cache, and thousands of idle
//! connections hold none.

use std::cell::RefCell;

use bytes::BytesMut;

/// The largest number of unused buffers.
const SPARES_MAX: usize = 64;
/// A buffer larger than this is freed.
const BYTES_MAX: usize = 64 << 10;
const BYTES: usize = 8 << 10;

#[derive(Debug, Default)]
pub(super) struct Buffers {
    spares: RefCell<Vec<BytesMut>>,
}

impl Buffers {
    /// An empty buffer with some capacity.
    pub fn take(&self) -> BytesMut {
        self.spares.borrow_mut().pop().unwrap_or_else(|| BytesMut::with_capacity(BYTES))
    }

    /// Takes a buffer back whose content is no longer needed.
    pub fn give_back(&self, buffer: &mut BytesMut) {
        let mut buffer = std::mem::take(buffer);
        buffer.clear();
        let mut spares = self.spares.borrow_mut();
        // If parts of its memory are still used elsewhere, the buffer allocates new memory instead of overwriting them.
        if buffer.try_reclaim(BYTES) && buffer.capacity() <= BYTES_MAX && spares.len() < SPARES_MAX {
            spares.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_reused() {
        let buffers = Buffers::default();
        let mut buffer = buffers.take();
        buffer.extend_from_slice(b"a request and the next");
        drop(buffer.split_to(9).freeze());
        let place = buffer.as_ptr() as usize - 9;
        buffers.give_back(&mut buffer);
        assert_eq!(buffer.capacity(), 0);
        let again = buffers.take();
        assert_eq!((again.as_ptr() as usize, again.len()), (place, 0));
    }

    #[test]
    fn large_or_shared_buffers_are_not_kept() {
        let buffers = Buffers::default();
        let mut large = BytesMut::with_capacity(BYTES_MAX + 1);
        buffers.give_back(&mut large);
        let mut shared = buffers.take();
        shared.extend_from_slice(b"a body");
        let body = shared.split_to(6).freeze();
        shared.truncate(0);
        buffers.give_back(&mut shared);
        let mut next = buffers.take();
        next.extend_from_slice(b"others");
        assert_eq!(&body[..], b"a body");
        assert_eq!(buffers.spares.borrow().len(), 0);
    }
}
