//! Where on its device the bytes of a file are.

use crate::Result;
use crate::errno::Errno;
use std::os::fd::{AsFd, AsRawFd};

/// `FS_IOC_FIEMAP`, `_IOWR('f', 11, struct fiemap)` (Linux, include/uapi/linux/fs.h).
const FIEMAP: libc::c_ulong = 0xc020_660b;

/// `FIEMAP_FLAG_SYNC`: what is in memory is written first.
const SYNC: u32 = 1;

/// `FIEMAP_EXTENT_LAST`.
const LAST: u32 = 1;

/// Flags of extents whose bytes are not on the device as they are in the file: location unknown,
/// not allocated yet, encoded, encrypted, not aligned, inline, packed with others, unwritten
/// (include/uapi/linux/fiemap.h).
const NOT_PLAIN: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800;

/// Extents that one call asks for.
const BATCH: usize = 128;

/// A run of bytes of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Where in the file.
    pub offset: u64,
    /// Where on the device that the file system is on.
    pub on_device: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Whether the bytes are on the device as they are in the file.
    pub is_plain: bool,
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

/// `struct fiemap` with its array.
#[repr(C)]
struct Map {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [RawExtent; BATCH],
}

/// The extents of a file, which is synced for it, in rising order; holes are left out. EOPNOTSUPP
/// for a file system that does not tell.
pub fn extents(file: impl AsFd) -> Result<Vec<Extent>> {
    let mut found = Vec::new();
    let mut start = 0;
    loop {
        let mut map = Map {
            start,
            length: u64::MAX - start,
            flags: SYNC,
            mapped: 0,
            count: BATCH as u32,
            reserved: 0,
            extents: [RawExtent::default(); BATCH],
        };
        #[expect(unsafe_code, reason = "rustix has no FIEMAP")]
        // SAFETY: the struct has the kernel's layout and room for as many extents as it says, and
        // lives during the call; the descriptor is open while it is borrowed.
        let result = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), FIEMAP, &raw mut map) };
        if result != 0 {
            let error = std::io::Error::last_os_error();
            return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
        }
        let mut mapped = map.extents.iter().take(map.mapped as usize);
        found.extend(mapped.clone().map(|raw| Extent {
            offset: raw.logical,
            on_device: raw.physical,
            bytes: raw.length,
            is_plain: raw.flags & NOT_PLAIN == 0,
        }));
        match mapped.next_back() {
            Some(last) if last.flags & LAST == 0 => {
                start = last.logical.saturating_add(last.length);
            }
            _ => return Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn the_data_of_a_file_is_in_its_extents_and_holes_are_not() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let file = std::fs::File::create(dir.path().join("file")).expect("a file");
        file.set_len(100 << 20).expect("a length");
        for at in [0u64, 50 << 20, (100 << 20) - 5] {
            file.write_all_at(b"bytes", at).expect("a write");
        }
        let found = match extents(&file) {
            // A file system that does not tell.
            Err(Errno::OPNOTSUPP) => return,
            found => found.expect("extents"),
        };
        let has = |at: u64| {
            let covers =
                |extent: &Extent| (extent.offset..extent.offset + extent.bytes).contains(&at);
            found.iter().any(covers)
        };
        assert!(has(0) && has(50 << 20) && has((100 << 20) - 1));
        assert!(!has(20 << 20) && !has(80 << 20));
        assert!(found.iter().map(|extent| extent.bytes).sum::<u64>() < 4 << 20);
    }
}
