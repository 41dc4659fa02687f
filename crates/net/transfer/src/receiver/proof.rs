//! Reading back what was written.

use crate::content::sums_of;
use crate::entry::STAGING;
use crate::error::TransferError;
use crate::level::Level;
use crate::message::{FailureKind, PAGE_BYTES, RANGE_BYTES};
use crate::walk::words;
use env::errno::Errno;
use env::page_cache::{evict, resident};
use rustix::fs::{fdatasync, fstatfs};
use rustix::io::pread;
use std::os::fd::{AsFd, OwnedFd};

use super::staging::Staging;

/// Memory, offset and length of direct reads are multiples of this.
const ALIGNMENT: usize = 4096;

/// How often a file is synced again until the kernel has dropped it.
const DROPS: usize = 3;

/// Bytes of a file that were written, and what they have to be.
pub(super) struct Range {
    pub(super) offset: u64,
    pub(super) bytes: usize,
    pub(super) sums: Vec<u32>,
    /// Pages that were made of the old file and are not what they should be; their offsets.
    pub(super) unlike: Vec<u64>,
}

/// What came of reading back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Proof {
    /// All pages are right, at the level that was asked for.
    Right,
    /// These pages are not; their offsets.
    Wrong(Vec<u64>),
    /// The kernel keeps so many pages of the file in memory.
    Cached(u64),
}

/// Reads files back.
pub(super) struct Prover {
    level: Level,
    memory: Vec<u8>,
    start: usize,
}

impl Prover {
    pub(super) fn new(level: Level) -> Prover {
        let memory = vec![0; RANGE_BYTES + 2 * ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        assert!(start < ALIGNMENT, "byte pointers can be aligned");
        Prover {
            level,
            memory,
            start,
        }
    }

    /// Holds ranges of a file that was synced against their checksums. `written` is the handle
    /// that wrote it, `direct` one that reads past the page cache where it can; `whole` says that
    /// nobody writes any of the file meanwhile.
    pub(super) fn prove(
        &mut self,
        written: impl AsFd,
        direct: impl AsFd,
        ranges: &[Range],
        whole: bool,
    ) -> Result<Proof, Errno> {
        if self.level == Level::Wire {
            return Ok(Proof::Right);
        }
        if self.level >= Level::Device {
            let extent = match (whole, ranges.first(), ranges.last()) {
                (false, Some(first), Some(last)) => {
                    let end = last.offset + last.bytes as u64;
                    (first.offset, end - first.offset)
                }
                _ => (0, 0),
            };
            let cached = drop_cache(&written, extent)?;
            if cached > 0 {
                return Ok(Proof::Cached(cached));
            }
        }
        let mut wrong = Vec::new();
        for range in ranges {
            let found = match self.level {
                Level::Wire | Level::Cache => self.read(&written, range)?,
                Level::Device | Level::Medium => self.read(&direct, range)?,
            };
            let sums = sums_of(found);
            if sums != range.sums {
                let short = range.sums.len() - sums.len().min(range.sums.len());
                let all = sums
                    .iter()
                    .map(Some)
                    .chain(std::iter::repeat_n(None, short));
                let pairs = (range.offset..).step_by(PAGE_BYTES).zip(all);
                let differs = pairs.zip(&range.sums).filter(|((_, a), b)| *a != Some(*b));
                wrong.extend(differs.map(|((offset, _), _)| offset));
            }
        }
        Ok(match wrong.is_empty() {
            true => Proof::Right,
            false => Proof::Wrong(wrong),
        })
    }

    fn read(&mut self, file: impl AsFd, range: &Range) -> Result<&[u8], Errno> {
        assert!(range.bytes <= RANGE_BYTES, "a range has at most 1 MiB");
        let length = range.bytes.next_multiple_of(ALIGNMENT);
        let room = self.memory.get_mut(self.start..self.start + length);
        let room = room.ok_or(Errno::INVAL)?;
        let mut done = 0;
        while done < range.bytes {
            let at = range.offset + done as u64;
            let rest = room.get_mut(done..).ok_or(Errno::INVAL)?;
            match pread(&file, rest, at) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
            // What follows a direct read that ended between blocks is the end of the file.
            if done % ALIGNMENT != 0 {
                break;
            }
        }
        let got = done.min(range.bytes);
        Ok(self
            .memory
            .get(self.start..self.start + got)
            .unwrap_or_default())
    }
}

/// Has the kernel forget a file that was synced; how many pages it keeps all the same.
pub(crate) fn drop_cache(file: impl AsFd, extent: (u64, u64)) -> Result<u64, Errno> {
    let (offset, length) = extent;
    let mut cached = 0;
    for attempt in 0..DROPS {
        if attempt > 0 {
            fdatasync(&file)?;
        }
        evict(&file, offset, length)?;
        cached = resident(&file, offset, length)?;
        if cached == 0 {
            break;
        }
    }
    Ok(cached)
}

/// File systems that are not on a device of this machine, or stand before another one: what they
/// return proves nothing of a device (`f_type` of statfs(2); include/uapi/linux/magic.h).
const NO_DEVICE: [(u64, &str); 9] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "Ceph"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
];

/// Tries with a file of its own whether a level can be reached in the destination.
pub(super) fn probe(staging: &Staging, level: Level) -> Result<(), TransferError> {
    if level < Level::Device {
        return Ok(());
    }
    let refuse = |why: String| {
        let what = format!("level device cannot be reached in the destination: {why}");
        TransferError::failed(FailureKind::Level, what)
    };
    let doing = TransferError::io("the destination cannot be written");
    let kind = fstatfs(staging.dir()).map_err(&doing)?.f_type;
    let kind = u64::from_ne_bytes(kind.to_ne_bytes()) & 0xffff_ffff;
    if let Some((_, name)) = NO_DEVICE.iter().find(|(number, _)| *number == kind) {
        return Err(refuse(format!("it is on {name}")));
    }
    let staged = staging.create().map_err(&doing)?;
    let cached = try_out(&staged.file);
    staging.remove(staged.number);
    match cached {
        Ok(0) => Ok(()),
        Ok(pages) => Err(refuse(format!(
            "the kernel keeps {pages} pages of a file that it was told to drop"
        ))),
        Err(Errno::NOSYS) => Err(refuse("the kernel is older than Linux 6.5".to_owned())),
        Err(Errno::NOSPC) => Err(TransferError::failed(
            FailureKind::Full,
            "the destination is full",
        )),
        Err(errno) => Err(refuse(words(errno))),
    }
}

fn try_out(file: &OwnedFd) -> Result<u64, Errno> {
    crate::content::write_range(file, 0, &[1; 2 * PAGE_BYTES], false)?;
    fdatasync(file)?;
    drop_cache(file, (0, 0))
}

/// The name of the receiver's directory, for messages.
pub(super) fn quarantine_path() -> String {
    format!("{STAGING}/quarantine")
}
