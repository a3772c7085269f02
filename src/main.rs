//! The `liststore` binary: runs the command line.

use std::ffi::c_long;
use std::process::ExitCode;

use libmimalloc_sys::mi_option_t;
use mimalloc::MiMalloc;

/// Each answer makes a few short-lived allocations, often freed by another thread. The system's allocator took an
/// eighth of the CPU time of an add.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// `mi_option_purge_delay` in `mimalloc.h`.
const PURGE_DELAY: mi_option_t = 15;
/// Milliseconds after which free memory returns to the system. mimalloc's default is one second.
///
/// The thread that notices the time returns the memory. That is mostly the log's thread, for which all writes wait:
/// after a flush it took 20 ms. With this value it happens less often and frees less, because most of the memory is in
/// use again.
const PURGE_DELAY_MS: c_long = 10_000;

fn main() -> ExitCode {
    keep_free_memory();
    liststore::cli::run(std::env::args_os())
}

/// Sets the delay, unless the environment sets it (`MIMALLOC_PURGE_DELAY`).
#[expect(unsafe_code, reason = "mimalloc's options are set by its C interface alone, or by the environment")]
fn keep_free_memory() {
    // SAFETY: no other thread runs yet that might read or set an option. mimalloc ignores an unknown option.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MS) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Options have numbers that may change in another release of mimalloc. The default value identifies this option.
    #[test]
    #[expect(unsafe_code, reason = "mimalloc's options are read by its C interface alone")]
    fn the_intended_option_is_found() {
        if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
            // SAFETY: nothing in this program sets an option.
            assert_eq!(unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) }, 1_000);
        }
    }
}
