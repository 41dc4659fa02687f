//! The content of files, in ranges with a checksum for each page.

use crate::message::{PAGE_BYTES, RANGE_BYTES};
use codec::crc32c;
use env::errno::Errno;
use rustix::fs::{SeekFrom, seek};
use rustix::io::{ReadWriteFlags, pread, preadv2, pwrite, pwritev2};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::AsFd;

/// RWF_DONTCACHE (Linux 6.14, include/uapi/linux/fs.h): pages that the call itself brings into the
/// page cache leave it afterwards.
const DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

/// Files from this length are read and written so that the page cache is left to others.
const LARGE: u64 = 1 << 20;

/// The CRC-32C of each page of `bytes`; the last may be short.
pub(crate) fn sums_of(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(PAGE_BYTES).map(crc32c).collect()
}

/// Start and end of the next data at or behind `from` in a file of `length` bytes, the start a
/// multiple of a page; `None` where all the rest is a hole.
pub(crate) fn next_data(
    file: impl AsFd,
    from: u64,
    length: u64,
) -> Result<Option<(u64, u64)>, Errno> {
    if from >= length {
        return Ok(None);
    }
    let start = match seek(&file, SeekFrom::Data(from)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        // No holes are known there.
        Err(Errno::INVAL) => return Ok(Some((from, length))),
        Err(errno) => return Err(errno),
    };
    let end = seek(&file, SeekFrom::Hole(start))?;
    let page = PAGE_BYTES as u64;
    let start = (start / page * page).max(from);
    // The file may have grown since its length was asked for.
    let end = end.next_multiple_of(page).min(length);
    Ok((start < end).then_some((start, end)))
}

/// How long the range from `start` is: to `end`, and no further than the next multiple of
/// [`RANGE_BYTES`], so that ranges of a file always meet the same borders.
pub(crate) fn range_length(start: u64, end: u64) -> usize {
    let range = RANGE_BYTES as u64;
    let border = (start / range + 1).saturating_mul(range);
    end.min(border).saturating_sub(start) as usize
}

/// Fills `buffer` from `offset`, up to the end of the file; the bytes read.
pub(crate) fn read_range(
    file: impl AsFd,
    offset: u64,
    buffer: &mut [u8],
    large: bool,
) -> Result<usize, Errno> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let at = offset + done as u64;
        let answer = match large {
            true => match preadv2(&file, &mut [IoSliceMut::new(rest)], at, DONTCACHE) {
                Err(Errno::OPNOTSUPP | Errno::INVAL) => pread(&file, &mut *rest, at),
                answer => answer,
            },
            false => pread(&file, &mut *rest, at),
        };
        match answer {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

/// Writes all of `bytes` at `offset`.
pub(crate) fn write_range(
    file: impl AsFd,
    offset: u64,
    bytes: &[u8],
    large: bool,
) -> Result<(), Errno> {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        let at = offset + done as u64;
        let answer = match large {
            true => match pwritev2(&file, &[IoSlice::new(rest)], at, DONTCACHE) {
                Err(Errno::OPNOTSUPP | Errno::INVAL) => pwrite(&file, rest, at),
                answer => answer,
            },
            false => pwrite(&file, rest, at),
        };
        match answer {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Whether a file of this length is to leave the page cache to others.
pub(crate) fn is_large(length: u64) -> bool {
    length >= LARGE
}

/// Whether everything from `from` to `to` reads as zeros.
pub(crate) fn is_zero(file: impl AsFd, from: u64, to: u64) -> Result<bool, Errno> {
    let mut buffer = Vec::new();
    let mut at = from;
    while let Some((start, end)) = next_data(&file, at, to)? {
        buffer.resize(range_length(start, end), 0);
        let count = read_range(&file, start, &mut buffer, true)?;
        if count < buffer.len() || buffer.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at = start + count as u64;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    #[test]
    fn ranges_cover_the_data_and_meet_the_same_borders() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = std::fs::File::create_new(dir.path().join("f")).unwrap();
        file.set_len(50 << 20).unwrap();
        for at in [0, (5 << 20) - 100, 40 << 20] {
            file.seek(std::io::SeekFrom::Start(at)).unwrap();
            file.write_all(&[9; 300]).unwrap();
        }
        file.sync_all().unwrap();
        let file = std::fs::File::open(dir.path().join("f")).unwrap();
        let (mut at, mut covered) = (0, Vec::new());
        while let Some((start, end)) = next_data(&file, at, 50 << 20).unwrap() {
            assert_eq!(start % 4096, 0);
            let length = range_length(start, end) as u64;
            assert!(length <= 1 << 20 && length > 0);
            covered.push((start, start + length));
            at = start + length;
        }
        for wanted in [0, (5 << 20) - 100, (5 << 20) + 199, (40 << 20) + 299] {
            let has = |range: &&(u64, u64)| (range.0..range.1).contains(&wanted);
            assert!(covered.iter().any(|range| has(&range)), "{wanted}");
        }
        assert!(covered.iter().map(|(start, end)| end - start).sum::<u64>() < 4 << 20);
        assert_eq!(range_length((1 << 20) - 4096, 3 << 20), 4096);
        assert!(is_zero(&file, 1 << 20, 4 << 20).unwrap());
        assert!(!is_zero(&file, 4 << 20, 6 << 20).unwrap());
    }
}
