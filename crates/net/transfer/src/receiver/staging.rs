//! The receiver's own directory: files that are not in place yet, and what is known of them.

use crate::entry::{STAGING, Source, TreePath};
use crate::error::TransferError;
use crate::level::Level;
use crate::manifest::{Listed, Writer};
use crate::message::FailureKind;
use codec::{Identity, kind, open_object, seal_object, split_object};
use env::errno::Errno;
use rustix::fs::{
    AtFlags, Dir, FlockOperation, Mode, OFlags, fdatasync, flock, fstat, fsync, ftruncate, mkdirat,
    openat, renameat, statat, unlinkat,
};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The version of notes.
pub const NOTE_VERSION: u16 = 1;

/// Where files go that do not keep what is written to them.
const QUARANTINE: &str = "quarantine";

/// Files that wait for a later transfer to prove more of them.
const PENDING: &str = "pending";

/// Longest note in bytes: a path, and some numbers.
const NOTE_BYTES_MAX: usize = crate::entry::PATH_MAX + 4096;

/// What is known of a file that is not in place yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Note {
    /// Where it is to go.
    pub path: TreePath,
    /// Of what it is a copy.
    pub source: Source,
    /// What was proved of it.
    pub level: Level,
    /// All before this offset was synced and proved.
    pub proved_bytes: u64,
}

impl Note {
    /// As it stands in a file of this number.
    ///
    /// # Errors
    /// Never for a path that is allowed.
    pub fn encode(&self, number: u64) -> Result<Vec<u8>, rpc::RpcError> {
        let payload = rpc::encode(self)?;
        let identity = identity(number);
        Ok(seal_object(
            kind::TRANSFER_NOTE,
            NOTE_VERSION,
            &identity,
            &payload,
        ))
    }

    /// Reads what [`Note::encode`] made; `None` for anything else.
    pub fn decode(number: u64, bytes: &[u8]) -> Option<Note> {
        let object = open_object(bytes, kind::TRANSFER_NOTE, Some(&identity(number))).ok()?;
        if object.version != NOTE_VERSION {
            return None;
        }
        let note: Note = rpc::decode(object.payload).ok()?;
        note.path.is_allowed().then_some(note)
    }
}

fn identity(number: u64) -> Identity {
    Identity {
        set: [0; 16],
        object: number,
        generation: 0,
    }
}

/// Longest file of notes that is read: what a few batches have.
const HELD_BYTES_MAX: usize = 64 << 20;

/// What is under way, in notes one behind another, of which nothing was proved or synced: for who
/// goes on after a cut, who then looks at each page.
pub(super) struct Held {
    pub(super) number: u64,
    file: OwnedFd,
    at: u64,
}

impl Held {
    /// Adds a file.
    pub(super) fn add(
        &mut self,
        number: u64,
        path: &TreePath,
        source: Source,
    ) -> Result<(), TransferError> {
        let note = Note {
            path: path.clone(),
            source,
            level: Level::Wire,
            proved_bytes: 0,
        };
        let bytes = note.encode(number)?;
        let doing = TransferError::io("a note cannot be written");
        crate::content::write_range(&self.file, self.at, &bytes, false).map_err(doing)?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

/// The notes of a file that has several one behind another, with their numbers, up to the first that
/// is not whole.
pub fn held_notes(bytes: &[u8]) -> Vec<(u64, Note)> {
    let (mut found, mut rest) = (Vec::new(), bytes);
    while let Ok((first, behind)) = split_object(rest) {
        let number = open_object(first, kind::TRANSFER_NOTE, None).map(|it| it.identity.object);
        let note = number
            .ok()
            .and_then(|number| Some((number, Note::decode(number, first)?)));
        let Some(note) = note else { break };
        found.push(note);
        rest = behind;
    }
    found
}

/// What earlier transfers left: number and note by path.
pub(super) type Notes = HashMap<TreePath, (u64, Note)>;

/// A file that is not in place yet.
pub(super) struct Staged {
    pub(super) number: u64,
    pub(super) file: OwnedFd,
    /// Whether there may be a note of it.
    noted: AtomicBool,
}

/// The directory, locked.
pub(super) struct Staging {
    dir: OwnedFd,
    _lock: OwnedFd,
    next: AtomicU64,
}

impl Staging {
    /// Opens it, makes it where it is missing, and reads what an earlier transfer left.
    pub(super) fn open(root: &OwnedFd) -> Result<(Staging, Notes), TransferError> {
        let doing = TransferError::io("the destination cannot be written");
        match mkdirat(root, STAGING, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(doing(errno)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = openat(root, STAGING, flags, Mode::empty()).map_err(&doing)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = openat(&dir, "lock", flags, Mode::RUSR | Mode::WUSR).map_err(&doing)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::AGAIN) => {
                let what = "another transfer works on this destination";
                return Err(TransferError::failed(FailureKind::Busy, what));
            }
            Err(errno) => return Err(doing(errno)),
        }
        let mut staging = Staging {
            dir,
            _lock: lock,
            next: AtomicU64::new(0),
        };
        let notes = staging.read_notes().map_err(&doing)?;
        Ok((staging, notes))
    }

    /// The directory.
    pub(super) fn dir(&self) -> &OwnedFd {
        &self.dir
    }

    fn read_notes(&mut self) -> Result<Notes, Errno> {
        let mut parts = HashMap::new();
        let mut others = Vec::new();
        for found in Dir::read_from(&self.dir)? {
            let found = found?;
            let name = found.file_name().to_bytes();
            if [
                &b"."[..],
                b"..",
                b"lock",
                PENDING.as_bytes(),
                QUARANTINE.as_bytes(),
            ]
            .contains(&name)
            {
                continue;
            }
            match number_of(name, b".note") {
                Some(number) => {
                    let note = self.read_note(number).ok().flatten();
                    parts.insert(number, note);
                }
                None => others.push(found.file_name().to_owned()),
            }
        }
        let mut notes = HashMap::new();
        let mut highest = 0;
        let mut held = Vec::new();
        others.retain(
            |other: &CString| match number_of(other.to_bytes(), b".held") {
                Some(number) => {
                    highest = highest.max(number);
                    held.push(number);
                    false
                }
                None => true,
            },
        );
        for (number, note) in parts {
            highest = highest.max(number);
            let there = statat(&self.dir, name(number, "part"), AtFlags::SYMLINK_NOFOLLOW).is_ok();
            match note.filter(|_| there) {
                Some(note) => {
                    if let Some((older, _)) = notes.insert(note.path.clone(), (number, note)) {
                        self.remove(older);
                    }
                }
                None => self.remove(number),
            }
        }
        for number in &held {
            for (number, note) in self.read_held(*number).unwrap_or_default() {
                highest = highest.max(number);
                let name = name(number, "part");
                let there = statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
                if there && !notes.contains_key(&note.path) {
                    notes.insert(note.path.clone(), (number, note));
                }
            }
        }
        for other in others {
            let number = number_of(other.to_bytes(), b".part");
            highest = highest.max(number.unwrap_or(0));
            let noted = |number| notes.values().any(|(noted, _)| *noted == number);
            if !number.is_some_and(noted) {
                // It stays in the way of nothing where it cannot be removed.
                let _left = unlinkat(&self.dir, &other, AtFlags::empty());
            }
        }
        self.next = AtomicU64::new(highest.saturating_add(1));
        if !held.is_empty() {
            // Those that are read are gone only when all that they tell is told anew.
            self.keep_held(&notes).map_err(|_| Errno::IO)?;
            held.into_iter().for_each(|number| self.remove_held(number));
        }
        Ok(notes)
    }

    fn read_held(&self, number: u64) -> Result<Vec<(u64, Note)>, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.dir, name(number, "held"), flags, Mode::empty())?;
        let length = usize::try_from(fstat(&file)?.st_size).unwrap_or(0);
        let mut bytes = vec![0; length.min(HELD_BYTES_MAX)];
        let count = crate::content::read_range(&file, 0, &mut bytes, false)?;
        Ok(held_notes(bytes.get(..count).unwrap_or_default()))
    }

    fn keep_held(&self, notes: &Notes) -> Result<(), TransferError> {
        let mut held = self.begin_held()?;
        for (number, note) in notes.values().filter(|(_, note)| note.proved_bytes == 0) {
            held.add(*number, &note.path, note.source)?;
        }
        Ok(())
    }

    /// Begins a file of notes.
    pub(super) fn begin_held(&self) -> Result<Held, TransferError> {
        let number = self.number();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let (name, mode) = (name(number, "held"), Mode::RUSR | Mode::WUSR);
        let doing = TransferError::io("a note cannot be written");
        let file = openat(&self.dir, name, flags | OFlags::NOFOLLOW, mode).map_err(doing)?;
        Ok(Held {
            number,
            file,
            at: 0,
        })
    }

    /// Removes it.
    pub(super) fn remove_held(&self, number: u64) {
        // One that stays tells of files that are not there any more.
        let _left = unlinkat(&self.dir, name(number, "held"), AtFlags::empty());
    }

    /// How much of a file was written.
    pub(super) fn part_bytes(&self, number: u64) -> u64 {
        let stat = statat(&self.dir, name(number, "part"), AtFlags::SYMLINK_NOFOLLOW);
        stat.map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0))
    }

    /// Opens a file of an earlier transfer as it is.
    pub(super) fn open_part(&self, number: u64) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&self.dir, name(number, "part"), flags, Mode::empty())
    }

    fn read_note(&self, number: u64) -> Result<Option<Note>, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.dir, name(number, "note"), flags, Mode::empty())?;
        let mut bytes = vec![0; NOTE_BYTES_MAX];
        let count = crate::content::read_range(&file, 0, &mut bytes, false)?;
        Ok(Note::decode(number, bytes.get(..count).unwrap_or_default()))
    }

    /// Makes a note durable but for its name, which [`Staging::sync`] does.
    pub(super) fn write_note(&self, staged: &Staged, note: &Note) -> Result<(), TransferError> {
        let number = staged.number;
        staged.noted.store(true, Ordering::Release);
        let doing = TransferError::io("a note cannot be written");
        let bytes = note.encode(number)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let (new, name) = (name(number, "new"), name(number, "note"));
        let mode = Mode::RUSR | Mode::WUSR;
        let file = openat(&self.dir, &new, flags | OFlags::NOFOLLOW, mode).map_err(&doing)?;
        crate::content::write_range(&file, 0, &bytes, false).map_err(&doing)?;
        fdatasync(&file).map_err(&doing)?;
        renameat(&self.dir, &new, &self.dir, &name).map_err(&doing)
    }

    /// Makes the names in the directory durable.
    pub(super) fn sync(&self) -> Result<(), Errno> {
        fsync(&self.dir)
    }

    /// A file without a name, which is gone with its handle.
    pub(super) fn unnamed(&self) -> Result<OwnedFd, Errno> {
        let number = self.number();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let (name, mode) = (name(number, "part"), Mode::RUSR | Mode::WUSR);
        let file = openat(&self.dir, &name, flags | OFlags::NOFOLLOW, mode)?;
        unlinkat(&self.dir, &name, AtFlags::empty())?;
        Ok(file)
    }

    /// The ledger of files that wait.
    pub(super) fn open_pending(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&self.dir, PENDING, flags, Mode::empty())
    }

    /// Replaces the ledger, durably; where nothing waits there is none.
    pub(super) fn write_pending(&self, waiting: &[Listed]) -> Result<(), Errno> {
        if waiting.is_empty() {
            return match unlinkat(&self.dir, PENDING, AtFlags::empty()) {
                Ok(()) => fsync(&self.dir),
                Err(Errno::NOENT) => Ok(()),
                Err(errno) => Err(errno),
            };
        }
        let number = self.number();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let (name, mode) = (name(number, "part"), Mode::RUSR | Mode::WUSR);
        let file = openat(&self.dir, &name, flags | OFlags::NOFOLLOW, mode)?;
        let note = "files that wait until more was written to their device".to_owned();
        let mut ledger = Writer::begin(file, &[note]);
        for listed in waiting {
            ledger.add(listed)?;
        }
        let (file, _) = ledger.finish(None)?;
        fdatasync(&file)?;
        renameat(&self.dir, &name, &self.dir, PENDING)?;
        fsync(&self.dir)
    }

    /// A number that nothing here has.
    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// A new file.
    pub(super) fn create(&self) -> Result<Staged, Errno> {
        let number = self.number();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = openat(
            &self.dir,
            name(number, "part"),
            flags | OFlags::NOFOLLOW,
            mode,
        )?;
        let noted = AtomicBool::new(false);
        Ok(Staged {
            number,
            file,
            noted,
        })
    }

    /// A file of an earlier transfer, without what was not proved of it.
    pub(super) fn reopen(&self, number: u64, proved_bytes: u64) -> Result<Staged, Errno> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.dir, name(number, "part"), flags, Mode::empty())?;
        ftruncate(&file, proved_bytes)?;
        let noted = AtomicBool::new(true);
        Ok(Staged {
            number,
            file,
            noted,
        })
    }

    /// Opens a file for reading past the page cache, or through it where the file system allows
    /// nothing else.
    pub(super) fn open_direct(&self, number: u64) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = name(number, "part");
        match openat(&self.dir, &name, flags | OFlags::DIRECT, Mode::empty()) {
            Err(Errno::INVAL) => openat(&self.dir, &name, flags, Mode::empty()),
            answer => answer,
        }
    }

    /// Removes a file and its note.
    pub(super) fn remove(&self, number: u64) {
        for what in ["part", "note"] {
            // What cannot be removed is removed by a later transfer.
            let _left = unlinkat(&self.dir, name(number, what), AtFlags::empty());
        }
    }

    /// Removes the note of a file that is in place, where there is one.
    pub(super) fn remove_note(&self, staged: &Staged) {
        if staged.noted.load(Ordering::Acquire) {
            let name = name(staged.number, "note");
            let _none = unlinkat(&self.dir, name, AtFlags::empty());
        }
    }

    /// Puts a file away for people to look at.
    pub(super) fn quarantine(&self, staged: &Staged) -> Result<(), Errno> {
        let number = staged.number;
        match mkdirat(&self.dir, QUARANTINE, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        let to = [QUARANTINE.as_bytes(), b"/", name(number, "part").to_bytes()].concat();
        renameat(&self.dir, name(number, "part"), &self.dir, to)?;
        self.remove_note(staged);
        Ok(())
    }

    /// Removes what an earlier transfer left and nobody asked for, and the directory itself where
    /// nothing is quarantined.
    pub(super) fn finish(self, root: &OwnedFd, left: impl Iterator<Item = u64>) {
        for number in left {
            self.remove(number);
        }
        for found in Dir::read_from(&self.dir).into_iter().flatten().flatten() {
            if let Some(number) = number_of(found.file_name().to_bytes(), b".held") {
                self.remove_held(number);
            }
        }
        // The removal changes the time that the root has got.
        let before = fstat(root);
        // A quarantine keeps it, as it should, and a ledger.
        let has = |name: &str| statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        if !has(QUARANTINE) && !has(PENDING) {
            let _left = unlinkat(&self.dir, "lock", AtFlags::empty());
            let _left = unlinkat(root, STAGING, AtFlags::REMOVEDIR);
        }
        if let Ok(stat) = before {
            let _changed = super::carry::set_modified(root, crate::walk::meta(&stat).modified);
        }
        let _synced = fsync(root);
    }
}

/// The name of a file of this number.
pub(super) fn name(number: u64, what: &str) -> CString {
    // Digits and letters have no NUL.
    CString::new(format!("{number}.{what}")).unwrap_or_default()
}

fn number_of(name: &[u8], ending: &[u8]) -> Option<u64> {
    let digits = name.strip_suffix(ending)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written_and_no_flipped_bit_passes() {
        let note = Note {
            path: TreePath::root().join(b"a").join(b"b"),
            source: Source {
                bytes: 7,
                ..Source::default()
            },
            level: Level::Device,
            proved_bytes: 4096,
        };
        let bytes = note.encode(3).unwrap();
        assert_eq!(Note::decode(3, &bytes), Some(note));
        assert_eq!(Note::decode(4, &bytes), None, "of another file");
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Note::decode(3, &bad), None, "bit {bit}");
        }
    }
}
