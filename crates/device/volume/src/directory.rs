//! A directory tree in a volume: files, directories, names and attributes are objects of its log,
//! and each call that changes them is one group (`docs/decisions/0015-volume-directory.md`).
//!
//! [`Tree`] is what `mount` serves. What came before a sync survives everything, and each call that was
//! answered the end of this process; but for writes inside of the length of a file, which wait for
//! company: until a sync or a close of any file, or [`Tree::settle_writes`].
//!
//! ```
//! # use holdfast_volume as volume;
//! use env::{Dir, Open};
//! use mount::{Caller, Ino, Layer, NewObject};
//! use volume::{Options, Volume, VolumeId, directory::Tree};
//! # let home = tempfile::tempdir()?;
//! let disk = env::real::RealDir::open(home.path())?.open("volume", Open::Create(16 << 20))?;
//! let options = Options { segment_blocks: 64, ..Options::default() };
//! let tree = Tree::create(Volume::create(vec![disk], VolumeId(7), options)?)?;
//! let me = Caller { uid: 0, gid: 0, pid: 1, umask: 0o022 };
//! let (file, _) = tree.make(&me, Ino::ROOT, "letter".as_ref(), NewObject::File, 0o666)?;
//! tree.write(file, 0, b"Dear reader")?;
//! tree.sync(file, false)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod attributes;
pub mod batch;
pub mod inode;
pub mod page;

mod acl;
mod catalogue;
mod check;
mod content;
mod draft;
mod extended;
mod folder;
mod fragment;
mod handles;
pub(crate) mod inspect;
mod layer;
mod metadata;
mod names;
mod rename;

pub use check::{Problem, TreeReport, check};

use crate::engine::Ticket;
use crate::error::{Result as VolumeResult, VolumeError};
use crate::id::ObjectId;
use crate::{Change, Volume};
use batch::Batches;
use catalogue::Catalogue;
use draft::Draft;
use fragment::Fragments;
use handles::Handles;
use inode::Inode;
use mount::{Errno, Ino, Kind, Result, Timestamp};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::ffi::OsString;
use std::time::Duration;

/// Bits of an object's number that say which inode it belongs to; above are those that say what
/// it is. Numbers with none of these set are block devices.
const INO_BITS: u32 = 56;

/// The object that is the table of inodes.
pub const TABLE: ObjectId = ObjectId(1 << INO_BITS);

/// The directory of files that were removed while they were open.
pub const ORPHANS: ObjectId = ObjectId(4 << INO_BITS);

/// The object with a file's content, a directory's entries or a link's target.
pub fn content_of(ino: Ino) -> ObjectId {
    ObjectId(2 << INO_BITS | ino.0)
}

/// The object with a file's extended attributes.
pub fn attributes_of(ino: Ino) -> ObjectId {
    ObjectId(3 << INO_BITS | ino.0)
}

/// What an object is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A block device.
    Device,
    /// The table of inodes.
    Table,
    /// The content of an inode.
    Content(Ino),
    /// The extended attributes of an inode.
    Attributes(Ino),
    /// The directory of removed files.
    Orphans,
    /// Nothing that this version knows.
    Unknown,
}

/// What an object is for, by its number.
pub fn role(object: ObjectId) -> Role {
    let ino = Ino(object.0 & ((1 << INO_BITS) - 1));
    match object.0 >> INO_BITS {
        0 => Role::Device,
        1 if ino == Ino(0) => Role::Table,
        2 => Role::Content(ino),
        3 => Role::Attributes(ino),
        4 if ino == Ino(0) => Role::Orphans,
        _ => Role::Unknown,
    }
}

/// Whether a volume has a directory tree; else it has block devices, or nothing.
pub fn is_tree(volume: &Volume) -> bool {
    volume.size(TABLE).is_some()
}

/// What the tree remembers of an inode that the kernel knows.
#[derive(Debug)]
struct Known {
    /// Where it was last found.
    parent: Ino,
    name: OsString,
    /// What it was, once it is gone.
    ghost: Option<Inode>,
}

/// Bugs that tests plant, to see that they are found.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Plant {
    /// Pages of inodes and pages of names are two groups.
    TwoGroups,
    /// A commit writes each block by itself.
    BatchInPieces,
    /// A write that comes in pieces is written in pieces.
    WriteInPieces,
    /// A sync says that it is done and does nothing.
    ForgetSync,
    /// A start leaves removed files where they are.
    KeepOrphans,
}

/// A volume as a directory tree. All calls may come from several threads at once.
pub struct Tree {
    volume: Volume,
    state: RwLock<Catalogue>,
    handles: Mutex<Handles>,
    known: Mutex<HashMap<Ino, Known>>,
    /// Held by who changes a list of extended attributes; taken before `state`.
    lists: Mutex<()>,
    batches: Batches,
    fragments: Fragments,
    now: fn() -> Timestamp,
    #[cfg(test)]
    plant: Option<Plant>,
}

impl Tree {
    /// Makes an empty tree on an empty volume.
    ///
    /// # Errors
    /// [`VolumeError::NotEmpty`]; of the disks.
    pub fn create(volume: Volume) -> VolumeResult<Tree> {
        Tree::create_at(volume, present)
    }

    fn create_at(volume: Volume, present: fn() -> Timestamp) -> VolumeResult<Tree> {
        if !volume.objects().is_empty() {
            return Err(VolumeError::NotEmpty);
        }
        let now = present();
        let mut inodes = [None; inode::INODES_PER_PAGE as usize];
        if let Some(root) = inodes.first_mut() {
            *root = Some(Inode {
                kind: Kind::Dir,
                perm: 0o755,
                links: 2,
                uid: 0,
                gid: 0,
                device: 0,
                parent: Ino::ROOT,
                attributes: false,
                capability: false,
                atime: now,
                mtime: now,
                ctime: now,
            });
        }
        let table = inode::encode(volume.id(), 0, &inodes);
        // The first page of the removed is there from the start: to remove a file takes no room.
        let orphans = page::encode(volume.id(), ORPHANS, 0, std::iter::empty());
        let write = |object, bytes| Change::Write {
            object,
            offset: 0,
            bytes,
        };
        let root = Change::Resize {
            object: content_of(Ino::ROOT),
            size: 0,
        };
        volume.commit(&[root, write(TABLE, &table), write(ORPHANS, &orphans)])?;
        volume.sync()?;
        Tree::of(volume)
    }

    /// Opens the tree of a volume, and takes away what was removed while it was open.
    ///
    /// # Errors
    /// [`VolumeError::NoTree`]; damage of the root or of the directory of removed files.
    pub fn open(volume: Volume) -> VolumeResult<Tree> {
        let tree = Tree::of(volume)?;
        tree.clear_orphans()?;
        Ok(tree)
    }

    fn of(volume: Volume) -> VolumeResult<Tree> {
        if !is_tree(&volume) {
            return Err(VolumeError::NoTree);
        }
        // Without its root there is nothing to serve.
        catalogue::read_page(&volume, 0)?;
        Ok(Tree {
            state: RwLock::new(Catalogue::of(&volume)),
            volume,
            handles: Mutex::default(),
            known: Mutex::default(),
            lists: Mutex::default(),
            batches: Batches::default(),
            fragments: Fragments::default(),
            now: present,
            #[cfg(test)]
            plant: None,
        })
    }

    /// The volume that it is on.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Writes the times that are only in memory. To be called now and then, and at the end.
    ///
    /// # Errors
    /// Of the volume; then the times stay in memory.
    pub fn write_times(&self) -> Result<()> {
        let dirty: Vec<u32> = {
            let state = self.state.read();
            let pages = state.table.iter().filter(|(_, page)| page.dirty);
            pages.map(|(number, _)| *number).collect()
        };
        for pages in dirty.chunks(64) {
            self.write_pages(pages)?;
        }
        Ok(())
    }

    /// Ends: everything is durable and checkpointed. The tree stays usable.
    ///
    /// # Errors
    /// Of the volume; what was synced before is safe.
    pub fn settle(&self) -> Result<()> {
        self.settle_writes(Duration::ZERO)?;
        self.write_times()?;
        self.volume.checkpoint().map_err(|error| errno(&error))
    }

    /// Writes pages of the table where their times are only in memory.
    fn write_pages(&self, pages: &[u32]) -> Result<()> {
        let ticket = {
            let mut state = self.state.write();
            let mut draft = Draft::new(&self.volume, &mut state);
            draft.write_again(pages);
            draft.begin(&[])?
        };
        self.wait(ticket)
    }

    #[cfg(test)]
    fn planted(&self, plant: Plant) -> bool {
        self.plant == Some(plant)
    }

    /// Makes all that is visible durable.
    fn sync_all(&self) -> Result<()> {
        #[cfg(test)]
        if self.planted(Plant::ForgetSync) {
            return Ok(());
        }
        self.volume.sync().map_err(|error| errno(&error))
    }

    /// Waits for a group. Where it fails the volume has stopped: what memory has beyond the log is
    /// let go, so that what is read from then on is what the log has.
    fn wait(&self, ticket: Option<Ticket>) -> Result<()> {
        let Some(ticket) = ticket else {
            return Ok(());
        };
        self.volume.wait(ticket).map_err(|error| {
            tracing::error!(%error, "a change failed");
            self.state.write().fall_back();
            errno(&error)
        })
    }

    /// Works out a change and commits it as one group. The lock of the tree is not held while the
    /// group is written.
    fn change<R>(&self, work: impl FnOnce(&mut Draft<'_>) -> Result<R>) -> Result<R> {
        self.change_with(&[], work)
    }

    /// As [`Tree::change`], with changes of objects as part of the group.
    fn change_with<R>(
        &self,
        objects: &[Change<'_>],
        work: impl FnOnce(&mut Draft<'_>) -> Result<R>,
    ) -> Result<R> {
        let (result, ticket) = {
            let mut state = self.state.write();
            let mut draft = Draft::new(&self.volume, &mut state);
            #[cfg(test)]
            draft.split(self.planted(Plant::TwoGroups));
            match work(&mut draft) {
                Ok(result) => (result, draft.begin(objects)?),
                Err(error) => {
                    draft.undo();
                    return Err(error);
                }
            }
        };
        self.wait(ticket)?;
        Ok(result)
    }

    /// Looks at the catalogue: with what is in memory where that is enough, else by reading.
    fn inode(&self, ino: Ino) -> Result<Inode> {
        if let Some(found) = self.state.read().cached(ino) {
            return found;
        }
        let mut state = self.state.write();
        state.trim();
        state.inode(&self.volume, ino)
    }

    /// Removes what a crash left in the directory of removed files.
    fn clear_orphans(&self) -> VolumeResult<()> {
        let mut lost = None;
        let folder = folder::Folder::load(&self.volume, ORPHANS, &mut |number, complaint| {
            lost = Some((number, complaint));
        })?;
        if let Some((number, complaint)) = lost {
            // What they hold stays behind; nobody can see it.
            tracing::error!(number, complaint, "removed files cannot be found");
        }
        let found: Vec<Ino> = folder.entries().map(|(_, named)| named.ino).collect();
        drop(folder);
        for ino in found {
            let removed = self.change(|draft| draft.bury(ino));
            if let Err(error) = removed {
                tracing::error!(%error, ino = ino.0, "a removed file keeps its room");
            }
        }
        Ok(())
    }

    /// Notes where an inode was found.
    fn note(&self, ino: Ino, parent: Ino, name: &std::ffi::OsStr) {
        let known = Known {
            parent,
            name: name.to_owned(),
            ghost: None,
        };
        self.known.lock().insert(ino, known);
    }

    /// Remembers what an inode was that is gone.
    fn note_gone(&self, ino: Ino, inode: &Inode) {
        if let Some(known) = self.known.lock().get_mut(&ino) {
            known.ghost = Some(Inode { links: 0, ..*inode });
        }
    }
}

/// The time of day.
fn present() -> Timestamp {
    let now = env::wall_time();
    Timestamp {
        sec: now.seconds,
        nsec: now.nanoseconds,
    }
}

/// An error of the volume as the caller of a system call gets it.
fn errno(error: &VolumeError) -> Errno {
    match error {
        VolumeError::NoSpace { .. } => Errno::NOSPC,
        VolumeError::ReadOnly => Errno::ROFS,
        VolumeError::OutOfRange { .. } => Errno::FBIG,
        _ => Errno::IO,
    }
}

#[cfg(test)]
mod tests;
