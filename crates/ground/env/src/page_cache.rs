//! What the kernel keeps of a file in memory.

use crate::Result;
use crate::errno::Errno;
use rustix::fs::{Advice, fadvise};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd};

/// `cachestat(2)` on every architecture but alpha (Linux 6.5, include/uapi/asm-generic/unistd.h).
const SYS_CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

/// `struct cachestat` of include/uapi/linux/mman.h.
#[repr(C)]
#[derive(Default)]
struct Counts {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// How many pages of `length` bytes from `offset` are in memory; a length of 0 goes to the end of
/// the file. ENOSYS before Linux 6.5, EPERM for who neither owns the file nor may write it.
///
/// Unlike mincore(2) it never says more or less than is true (mincore answers "all" to those who
/// may not know).
pub fn resident(file: impl AsFd, offset: u64, length: u64) -> Result<u64> {
    let range = Range { offset, length };
    let mut counts = Counts::default();
    #[expect(unsafe_code, reason = "rustix has no cachestat")]
    // SAFETY: both structs have the kernel's layout and live during the call; the descriptor is
    // open while it is borrowed.
    let result = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_fd().as_raw_fd(),
            &raw const range,
            &raw mut counts,
            0,
        )
    };
    match result {
        0 => Ok(counts.cached),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// Has the kernel drop what it keeps of `length` bytes from `offset`, to the end of the file for
/// a length of 0. What is dirty, mapped, or shares a large folio with such pages stays, and no
/// error says so: ask [`resident`].
pub fn evict(file: impl AsFd, offset: u64, length: u64) -> Result<()> {
    fadvise(file, offset, NonZeroU64::new(length), Advice::DontNeed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_is_synced_and_dropped_is_gone_and_what_was_written_is_there() {
        // On the file system that the build is on: one in memory keeps all its pages.
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let path = dir.path().join("file");
        let mut file = std::fs::File::create(path).expect("a file");
        file.write_all(&[7; 40_000]).expect("writes");
        match resident(&file, 0, 0) {
            // Before Linux 6.5.
            Err(Errno::NOSYS) => return,
            pages => assert_eq!(pages, Ok(10)),
        }
        file.sync_all().expect("syncs");
        evict(&file, 0, 0).expect("advice");
        assert_eq!(resident(&file, 0, 0), Ok(0));
    }
}
