//! What a file layer offers to the FUSE edge.

use crate::opens::Opens;
use std::ffi::{OsStr, OsString};

/// The error of every call at this edge: the number that the caller of the system call gets.
pub type Errno = rustix::io::Errno;

/// A result at this edge.
pub type Result<T> = core::result::Result<T, Errno>;

/// An inode number. It is stable for the life of the object, also over restarts, and it is
/// both the FUSE node id and the `st_ino` that users see.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ino(pub u64);

impl Ino {
    /// The root directory (`FUSE_ROOT_ID` in linux/fuse.h).
    pub const ROOT: Ino = Ino(1);
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// File-system user id of the caller.
    pub uid: u32,
    /// File-system group id of the caller.
    pub gid: u32,
    /// Process id of the caller; 0 for the kernel's own writeback.
    pub pid: u32,
    /// The caller's umask, where the request carries one, else 0. It is to be ignored where the
    /// parent directory has a default ACL, as the kernel's own file systems do.
    pub umask: u32,
}

/// The type of an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Regular file.
    File,
    /// Directory.
    Dir,
    /// Symbolic link.
    Symlink,
    /// Named pipe.
    Fifo,
    /// Unix socket.
    Socket,
    /// Character device.
    CharDevice,
    /// Block device.
    BlockDevice,
}

/// A point in time since the epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Timestamp {
    /// Seconds; negative before 1970.
    pub sec: i64,
    /// Nanoseconds, 0 to 999,999,999.
    pub nsec: u32,
}

/// Attributes of an object, as `stat(2)` gives them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attr {
    /// Type.
    pub kind: Kind,
    /// Permission bits with set-id and sticky bits (12 bits).
    pub perm: u16,
    /// Number of hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a special file, as `st_rdev` in the kernel's 32-bit encoding.
    pub rdev: u32,
    /// Length in bytes.
    pub size: u64,
    /// Allocated 512-byte units.
    pub blocks: u64,
    /// Preferred I/O size in bytes.
    pub blksize: u32,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of content or attributes.
    pub ctime: Timestamp,
}

/// A time to set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetTime {
    /// The present.
    Now,
    /// A given time.
    To(Timestamp),
}

/// Attributes to change; `None` leaves one as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetAttr {
    /// Permission bits (12 bits).
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length in bytes.
    pub size: Option<u64>,
    /// Access time.
    pub atime: Option<SetTime>,
    /// Modification time.
    pub mtime: Option<SetTime>,
}

/// What to create.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewObject<'a> {
    /// An empty regular file.
    File,
    /// An empty directory.
    Dir,
    /// A symbolic link to this target (no NUL, at most 4095 bytes).
    Symlink(&'a OsStr),
    /// A pipe, socket or device (`kind` is one of these) with this device number.
    Special(Kind, u32),
}

/// Capacity and use, as `statvfs(3)` gives them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Space {
    /// Total user bytes.
    pub total_bytes: u64,
    /// Free bytes.
    pub free_bytes: u64,
    /// Free bytes for ordinary users.
    pub available_bytes: u64,
    /// Inodes in all.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
    /// Longest name in bytes.
    pub name_max: u32,
    /// Block size in bytes that the counts above are multiples of when shown to users.
    pub block_bytes: u32,
}

/// A snapshot of a directory's entries, without `.` and `..`, kept compactly (one arena for the
/// names): a directory of a million entries must not cost more than a few tens of MB.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    names: Vec<u8>,
    entries: Vec<(u32, u16, Kind, u64)>,
}

impl Listing {
    /// Adds an entry; `name` is at most 255 bytes.
    pub fn push(&mut self, name: &OsStr, kind: Kind, ino: Ino) {
        use std::os::unix::ffi::OsStrExt;
        let start = u32::try_from(self.names.len()).expect("a listing holds under 4 GiB of names");
        let bytes = name.as_bytes();
        self.names.extend_from_slice(bytes);
        let length = u16::try_from(bytes.len()).expect("a name is at most 255 bytes");
        self.entries.push((start, length, kind, ino.0));
    }

    /// Puts the entries in the order of their names' bytes and keeps one of each name.
    pub fn sort_and_deduplicate(&mut self) {
        let names = &self.names;
        let name =
            |e: &(u32, u16, Kind, u64)| &names[e.0 as usize..e.0 as usize + usize::from(e.1)];
        self.entries.sort_unstable_by(|a, b| name(a).cmp(name(b)));
        self.entries.dedup_by(|a, b| name(a) == name(b));
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entry `index` in the order of the snapshot: name, type and inode number
    /// (0 where the layer did not look it up).
    pub fn get(&self, index: usize) -> Option<(&OsStr, Kind, Ino)> {
        use std::os::unix::ffi::OsStrExt;
        let &(start, length, kind, ino) = self.entries.get(index)?;
        let name = self
            .names
            .get(start as usize..start as usize + usize::from(length))?;
        Some((OsStr::from_bytes(name), kind, Ino(ino)))
    }
}

bitflags::bitflags! {
    /// Flags of `renameat2(2)`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct RenameFlags: u32 {
        /// Fail with EEXIST where the target exists.
        const NOREPLACE = 1;
        /// Swap the two names atomically.
        const EXCHANGE = 2;
        /// Leave a whiteout at the source.
        const WHITEOUT = 4;
    }
}

bitflags::bitflags! {
    /// Flags of `fallocate(2)`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct AllocateFlags: u32 {
        /// Do not change the length.
        const KEEP_SIZE = 0x01;
        /// Free the range; it reads as zeros.
        const PUNCH_HOLE = 0x02;
        /// Cut the range out of the file.
        const COLLAPSE_RANGE = 0x08;
        /// The range reads as zeros and stays allocated.
        const ZERO_RANGE = 0x10;
        /// Shift what follows up by the range.
        const INSERT_RANGE = 0x20;
    }
}

/// A file layer under the FUSE edge.
///
/// Calls come from several threads at once. The kernel serialises calls that change one
/// directory's entries, and buffered writes to one file; a layer must not rely on more.
/// Permission bits and ACLs have been checked by the kernel (`default_permissions`) before a call
/// arrives. There is no open and no release, but for layers with [`Layer::opens`]: an inode that the
/// kernel knows (looked up and not yet forgotten) can be read and written, also after its last name
/// is gone.
///
/// What changes something is refused with EROFS, and extended attributes are not there, where a
/// layer says nothing else.
#[expect(
    unused_variables,
    reason = "what refuses does not look at what was asked for"
)]
pub trait Layer: Send + Sync + 'static {
    /// Who wants to know of open files; `None` spares the kernel the requests. Always the same.
    fn opens(&self) -> Option<&dyn Opens> {
        None
    }
    /// Finds `name` in `dir`. ENOENT where there is none. Each successful answer is one
    /// reference that the edge counts; [`Layer::forget`] ends them all.
    fn lookup(&self, dir: Ino, name: &OsStr) -> Result<(Ino, Attr)>;
    /// The kernel holds no reference to `ino` any more. Called with a lock of the edge held, so
    /// that nobody takes a new reference meanwhile: it must be quick and must not wait for another
    /// call of the layer. A lookup that crosses it is repeated by the edge.
    fn forget(&self, ino: Ino);
    /// Where the layer last found `ino`: its directory and name, so that the edge can ask the
    /// kernel to let go of it. `None` for the root and for what has no name any more.
    fn name_of(&self, ino: Ino) -> Option<(Ino, OsString)>;
    /// Attributes.
    fn attr(&self, ino: Ino) -> Result<Attr>;
    /// Changes attributes and returns the new ones.
    fn set_attr(&self, caller: &Caller, ino: Ino, change: &SetAttr) -> Result<Attr> {
        Err(Errno::ROFS)
    }
    /// Target of a symbolic link.
    fn read_link(&self, ino: Ino) -> Result<OsString> {
        Err(Errno::INVAL)
    }
    /// Creates `name` in `dir` (EEXIST where it exists) with `mode` (permission bits before the
    /// umask), owned by the caller, the group by the set-group-id rule of `dir`.
    fn make(
        &self,
        caller: &Caller,
        dir: Ino,
        name: &OsStr,
        object: NewObject<'_>,
        mode: u32,
    ) -> Result<(Ino, Attr)> {
        Err(Errno::ROFS)
    }
    /// Gives `ino` another name.
    fn link(&self, ino: Ino, dir: Ino, name: &OsStr) -> Result<Attr> {
        Err(Errno::ROFS)
    }
    /// Removes a name that is not a directory's.
    fn unlink(&self, dir: Ino, name: &OsStr) -> Result<()> {
        Err(Errno::ROFS)
    }
    /// Removes an empty directory.
    fn remove_dir(&self, dir: Ino, name: &OsStr) -> Result<()> {
        Err(Errno::ROFS)
    }
    /// Renames, atomically replacing a target unless `flags` say otherwise.
    fn rename(
        &self,
        dir: Ino,
        name: &OsStr,
        new_dir: Ino,
        new_name: &OsStr,
        flags: RenameFlags,
    ) -> Result<()> {
        Err(Errno::ROFS)
    }
    /// All entries of `dir`.
    fn list(&self, dir: Ino) -> Result<Listing>;
    /// Reads up to `buffer.len()` bytes at `offset`; fewer only at the end of the file.
    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<usize>;
    /// Writes all of `data` at `offset` or fails; a failure may leave a prefix written.
    fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<()> {
        Err(Errno::ROFS)
    }
    /// Makes content (and attributes unless `data_only`) durable; of a directory, its entries.
    fn sync(&self, ino: Ino, data_only: bool) -> Result<()>;
    /// `fallocate(2)`.
    fn allocate(&self, ino: Ino, offset: u64, length: u64, flags: AllocateFlags) -> Result<()> {
        Err(Errno::ROFS)
    }
    /// Next data (`hole` false) or hole at or after `offset`; ENXIO past the end.
    fn seek(&self, ino: Ino, offset: u64, hole: bool) -> Result<u64>;
    /// Copies a range between files; returns the bytes copied.
    fn copy_range(
        &self,
        from: Ino,
        from_offset: u64,
        to: Ino,
        to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        Err(Errno::OPNOTSUPP)
    }
    /// Capacity.
    fn space(&self) -> Result<Space>;
    /// Value of an extended attribute; ENODATA where it is not set.
    fn xattr(&self, ino: Ino, name: &OsStr) -> Result<Vec<u8>> {
        Err(Errno::NODATA)
    }
    /// Sets an extended attribute; `flags` as `setxattr(2)` (1 create, 2 replace).
    fn set_xattr(&self, ino: Ino, name: &OsStr, value: &[u8], flags: u32) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }
    /// Names of all extended attributes, each ended by NUL.
    fn list_xattr(&self, ino: Ino) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
    /// Removes an extended attribute.
    fn remove_xattr(&self, ino: Ino, name: &OsStr) -> Result<()> {
        Err(Errno::OPNOTSUPP)
    }
}
