//! The kernel's requests, one method each. What they do is in the folder, by family.

use crate::convert::{self, ino};
use crate::opens::Handle;
use crate::table::Table;
use crate::{Attr, Errno, Ino, Layer};
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, INodeNo, IoctlFlags, KernelConfig,
    LockOwner, Notifier, OpenFlags, PollEvents, PollFlags, PollNotifier, RenameFlags, ReplyAttr,
    ReplyBmap, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

mod attributes;
mod content;
mod directory;
mod init;
mod names;
pub(crate) mod opens;

pub(crate) use init::Kernel;

/// What the session and the request threads share.
pub(crate) struct Shared {
    pub(crate) layer: Arc<dyn Layer>,
    pub(crate) table: Table,
    /// Known once the session runs.
    pub(crate) notifier: OnceLock<Notifier>,
    /// What the kernel said at the start.
    pub(crate) kernel: OnceLock<Kernel>,
    /// The capabilities that the kernel lacks, where the session could not start for them.
    pub(crate) missing: OnceLock<String>,
    directories: directory::Open,
    pub(crate) open: opens::Open,
}

impl Shared {
    pub(crate) fn new(layer: Arc<dyn Layer>, inode_limit: usize) -> Shared {
        Shared {
            layer,
            table: Table::new(inode_limit),
            notifier: OnceLock::new(),
            kernel: OnceLock::new(),
            missing: OnceLock::new(),
            directories: directory::Open::default(),
            open: opens::Open::default(),
        }
    }

    /// Finds `name` and counts one reference to it.
    fn find(&self, dir: Ino, name: &OsStr) -> Result<(Ino, Attr), Errno> {
        let look = || self.layer.lookup(dir, name);
        self.table.hold(look, |ino| self.layer.forget(ino))
    }

    fn forget(&self, ino: Ino, count: u64) {
        self.table.remove(ino, count, || self.layer.forget(ino));
    }
}

/// The file system that fuser drives.
pub(crate) struct Edge {
    pub(crate) shared: Arc<Shared>,
}

/// Answers an empty reply.
fn empty(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(convert::errno(error)),
    }
}

impl Filesystem for Edge {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        self.negotiate(config)
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.lookup_name(ino(parent), name, reply);
    }

    fn forget(&self, _: &Request, number: INodeNo, count: u64) {
        self.shared.forget(ino(number), count);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let number = ino(number);
        self.reply_attr(number, self.shared.layer.attr(number), reply);
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = crate::SetAttr {
            mode: mode.map(|mode| mode & 0o7777),
            uid,
            gid,
            size,
            atime: atime.map(convert::set_time),
            mtime: mtime.map(convert::set_time),
        };
        self.change(&convert::caller(request, 0), ino(number), change, reply);
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        self.read_link(ino(number), reply);
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let caller = convert::caller(request, umask);
        self.make_node(&caller, ino(parent), name, mode, rdev, reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let caller = convert::caller(request, umask);
        let object = crate::NewObject::Dir;
        self.make(&caller, ino(parent), name, object, mode, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.shared.layer.unlink(ino(parent), name));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.shared.layer.remove_dir(ino(parent), name));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let caller = convert::caller(request, 0);
        let object = crate::NewObject::Symlink(target.as_os_str());
        self.make(&caller, ino(parent), name, object, 0o777, reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let result = match crate::RenameFlags::from_bits(flags.bits()) {
            Some(flags) => {
                let (from, to) = (ino(parent), ino(new_parent));
                self.shared.layer.rename(from, name, to, new_name, flags)
            }
            None => Err(Errno::INVAL),
        };
        empty(reply, result);
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.link_name(ino(number), ino(parent), name, reply);
    }

    /// ENOSYS makes the kernel skip open and release from then on and keep the page cache over
    /// opens (`FUSE_NO_OPEN_SUPPORT`): two round trips less for each open. O_TRUNC comes as a
    /// setattr in any case, and O_APPEND and O_DIRECT are the kernel's business anyway.
    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.open_file(ino(number), flags, reply);
    }

    fn release(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.release_file(ino(number), Handle(handle.0), reply);
    }

    /// ENOSYS makes the kernel use mknod, and then open, which costs it nothing here: there is no
    /// release of a handle that nobody needs.
    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        reply.error(fuser::Errno::ENOSYS);
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.read_content(ino(number), offset, size, reply);
    }

    fn write(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let caller = convert::caller(request, 0);
        self.write_content(&caller, ino(number), offset, data, flags, reply);
    }

    /// Most layers have nothing to do at a close, and ENOSYS spares the kernel the question.
    fn flush(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        _: LockOwner,
        reply: ReplyEmpty,
    ) {
        let caller = convert::caller(request, 0);
        self.flush_file(&caller, ino(number), Handle(handle.0), reply);
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, data: bool, reply: ReplyEmpty) {
        empty(reply, self.shared.layer.sync(ino(number), data));
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.open_directory(ino(number), reply);
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        self.read_directory(ino(number), handle, offset, reply);
    }

    fn readdirplus(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        self.read_directory_plus(ino(number), handle, offset, reply);
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.shared.directories.close(handle);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, data: bool, reply: ReplyEmpty) {
        empty(reply, self.shared.layer.sync(ino(number), data));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.space(reply);
    }

    fn setxattr(
        &self,
        _: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let flags = flags.cast_unsigned();
        let result = self.shared.layer.set_xattr(ino(number), name, value, flags);
        empty(reply, result);
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        attributes::reply_xattr(self.shared.layer.xattr(ino(number), name), size, reply);
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        attributes::reply_xattr(self.shared.layer.list_xattr(ino(number)), size, reply);
    }

    fn removexattr(&self, _: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.shared.layer.remove_xattr(ino(number), name));
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        empty(reply, self.allocate(ino(number), offset, length, mode));
    }

    fn lseek(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.seek(ino(number), offset, whence, reply);
    }

    fn copy_file_range(
        &self,
        _: &Request,
        from: INodeNo,
        _: FileHandle,
        from_offset: u64,
        to: INodeNo,
        _: FileHandle,
        to_offset: u64,
        length: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let (from, to) = (ino(from), ino(to));
        self.copy((from, from_offset), (to, to_offset), length, reply);
    }

    fn ioctl(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        flags: IoctlFlags,
        command: u32,
        input: &[u8],
        output_bytes: u32,
        reply: ReplyIoctl,
    ) {
        // Handles of directories are counted apart.
        if flags.contains(IoctlFlags::FUSE_IOCTL_DIR) {
            return reply.error(fuser::Errno::ENOTTY);
        }
        let file = (ino(number), Handle(handle.0));
        let caller = convert::caller(request, 0);
        self.command(&caller, file, command, input, output_bytes, reply);
    }

    fn bmap(&self, _: &Request, _: INodeNo, _: u32, _: u64, reply: ReplyBmap) {
        reply.error(fuser::Errno::ENOSYS);
    }

    /// ENOSYS: the kernel answers polls of regular files by itself from then on.
    fn poll(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: PollNotifier,
        _: PollEvents,
        _: PollFlags,
        reply: ReplyPoll,
    ) {
        reply.error(fuser::Errno::ENOSYS);
    }
}
