//! A directory whose files are given: for block devices, each shown as one file.
//!
//! Programs read and write the files, sync them, and make ranges of them zeros with fallocate(2).
//! Nobody can make, remove, rename or resize one. Writes past the end fail as on a block device.

use crate::{
    AllocateFlags, Attr, Caller, Errno, Ino, Kind, Layer, Listing, Result, SetAttr, Space,
    Timestamp,
};
use std::ffi::{OsStr, OsString};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of the unit in which space is counted.
const BLOCK_BYTES: u32 = 4096;

/// Longest name in bytes.
const NAME_MAX: u32 = 255;

/// What a file of a [`Fixed`] directory shows. Ranges that it is asked for are inside its size
/// unless it says otherwise. Calls come from several threads at once.
pub trait Content: Send + Sync + 'static {
    /// Length in bytes; always the same.
    fn size(&self) -> u64;
    /// Bytes that it takes up.
    fn allocated(&self) -> u64;
    /// Fills `buffer` with the bytes at `offset`.
    ///
    /// # Errors
    /// For the caller of read(2).
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;
    /// Writes all of `data` at `offset`.
    ///
    /// # Errors
    /// For the caller of write(2).
    fn write(&self, offset: u64, data: &[u8]) -> Result<()>;
    /// Makes a range read as zeros; with `free` its room may be given back.
    ///
    /// # Errors
    /// For the caller of fallocate(2).
    fn zero(&self, offset: u64, length: u64, free: bool) -> Result<()>;
    /// Makes durable what was written.
    ///
    /// # Errors
    /// For the caller of fsync(2).
    fn sync(&self) -> Result<()>;
    /// Whether the byte at `offset` is in a hole, and for how many bytes that is so.
    fn extent(&self, offset: u64) -> (bool, u64) {
        (false, self.size().saturating_sub(offset))
    }
    /// Whether writes past the end come here too, as messages that leave the length as it is.
    fn takes_messages(&self) -> bool {
        false
    }
}

/// A directory with files that are fixed.
pub struct Fixed {
    files: Vec<(OsString, Box<dyn Content>)>,
    since: Timestamp,
}

impl Fixed {
    /// One with these files; names are those of plain files, each once.
    pub fn new(files: Vec<(OsString, Box<dyn Content>)>) -> Fixed {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default();
        Fixed {
            files,
            since: Timestamp {
                sec: i64::try_from(now.as_secs()).unwrap_or(0),
                nsec: now.subsec_nanos(),
            },
        }
    }

    fn content(&self, ino: Ino) -> Result<&dyn Content> {
        let index = ino.0.checked_sub(FIRST.0).ok_or(Errno::ISDIR)?;
        let index = usize::try_from(index).map_err(|_| Errno::STALE)?;
        let file = self.files.get(index).ok_or(Errno::STALE)?;
        Ok(file.1.as_ref())
    }

    /// Every file with its number.
    fn numbered(&self) -> impl Iterator<Item = (Ino, &OsStr)> {
        let numbers = (FIRST.0..).map(Ino);
        numbers.zip(self.files.iter().map(|(name, _)| name.as_os_str()))
    }
}

/// The number of the first file.
const FIRST: Ino = Ino(Ino::ROOT.0 + 1);

/// Whether a range is inside a content, and is not empty.
fn inside(content: &dyn Content, offset: u64, length: u64) -> bool {
    length > 0
        && offset
            .checked_add(length)
            .is_some_and(|end| end <= content.size())
}

impl Layer for Fixed {
    fn lookup(&self, dir: Ino, name: &OsStr) -> Result<(Ino, Attr)> {
        if dir != Ino::ROOT {
            return Err(Errno::NOTDIR);
        }
        let found = self.numbered().find(|(_, known)| *known == name);
        let (ino, _) = found.ok_or(Errno::NOENT)?;
        Ok((ino, self.attr(ino)?))
    }

    fn forget(&self, _: Ino) {}

    fn name_of(&self, ino: Ino) -> Option<(Ino, OsString)> {
        let found = self.numbered().find(|(known, _)| *known == ino);
        found.map(|(_, name)| (Ino::ROOT, name.to_owned()))
    }

    fn attr(&self, ino: Ino) -> Result<Attr> {
        let root = ino == Ino::ROOT;
        let (size, allocated) = match root {
            true => (0, 0),
            false => {
                let content = self.content(ino)?;
                (content.size(), content.allocated())
            }
        };
        Ok(Attr {
            kind: if root { Kind::Dir } else { Kind::File },
            // As block devices have it: root's.
            perm: if root { 0o755 } else { 0o600 },
            nlink: if root { 2 } else { 1 },
            uid: 0,
            gid: 0,
            rdev: 0,
            size,
            blocks: allocated / 512,
            blksize: BLOCK_BYTES,
            atime: self.since,
            mtime: self.since,
            ctime: self.since,
        })
    }

    /// Times may be set and stay as they are; a size that is not the one that it has is refused.
    fn set_attr(&self, _: &Caller, ino: Ino, change: &SetAttr) -> Result<Attr> {
        let attr = self.attr(ino)?;
        let owner = change.mode.is_some() || change.uid.is_some() || change.gid.is_some();
        if owner || change.size.is_some_and(|size| size != attr.size) {
            return Err(Errno::PERM);
        }
        Ok(attr)
    }

    fn list(&self, dir: Ino) -> Result<Listing> {
        if dir != Ino::ROOT {
            return Err(Errno::NOTDIR);
        }
        let mut listing = Listing::default();
        for (ino, name) in self.numbered() {
            listing.push(name, Kind::File, ino);
        }
        Ok(listing)
    }

    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let content = self.content(ino)?;
        let rest = content.size().saturating_sub(offset);
        let length = usize::try_from(rest).map_or(buffer.len(), |rest| rest.min(buffer.len()));
        let wanted = buffer.get_mut(..length).unwrap_or_default();
        if !wanted.is_empty() {
            content.read(offset, wanted)?;
        }
        Ok(length)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<()> {
        let content = self.content(ino)?;
        match inside(content, offset, data.len() as u64) || content.takes_messages() {
            true => content.write(offset, data),
            false if data.is_empty() => Ok(()),
            // As the kernel answers a write past the end of a block device.
            false => Err(Errno::NOSPC),
        }
    }

    fn sync(&self, ino: Ino, _: bool) -> Result<()> {
        match ino {
            Ino::ROOT => self
                .files
                .iter()
                .try_for_each(|(_, content)| content.sync()),
            file => self.content(file)?.sync(),
        }
    }

    fn allocate(&self, ino: Ino, offset: u64, length: u64, flags: AllocateFlags) -> Result<()> {
        let content = self.content(ino)?;
        let free = match flags.difference(AllocateFlags::KEEP_SIZE) {
            AllocateFlags::PUNCH_HOLE => true,
            AllocateFlags::ZERO_RANGE => false,
            _ => return Err(Errno::OPNOTSUPP),
        };
        match inside(content, offset, length) {
            true => content.zero(offset, length, free),
            false => Err(Errno::NOSPC),
        }
    }

    fn seek(&self, ino: Ino, offset: u64, hole: bool) -> Result<u64> {
        let content = self.content(ino)?;
        let size = content.size();
        let mut at = offset;
        while at < size {
            let (found, length) = content.extent(at);
            if found == hole {
                return Ok(at);
            }
            at = at.saturating_add(length.max(1));
        }
        match hole && offset < size {
            // The end counts as a hole, lseek(2).
            true => Ok(size),
            false => Err(Errno::NXIO),
        }
    }

    fn space(&self) -> Result<Space> {
        let contents = || self.files.iter().map(|(_, content)| content);
        let total = contents().map(|content| content.size()).sum::<u64>();
        let used = contents().map(|content| content.allocated()).sum();
        let free = total.saturating_sub(used);
        Ok(Space {
            total_bytes: total,
            free_bytes: free,
            available_bytes: free,
            files: self.files.len() as u64,
            files_free: 0,
            name_max: NAME_MAX,
            block_bytes: BLOCK_BYTES,
        })
    }
}

#[cfg(test)]
mod tests;
