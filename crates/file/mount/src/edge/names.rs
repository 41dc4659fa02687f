//! Requests about names.

use super::Edge;
use crate::convert::{GENERATION, TTL, absent, errno, file_attr, kind_of_mode};
use crate::{Attr, Caller, Errno, Ino, Kind, NewObject};
use fuser::{ReplyData, ReplyEntry};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

impl Edge {
    pub(super) fn lookup_name(&self, dir: Ino, name: &OsStr, reply: ReplyEntry) {
        match self.shared.find(dir, name) {
            Ok((ino, attr)) => reply.entry(&TTL, &file_attr(ino, &attr), GENERATION),
            // The kernel remembers that there is none; it forgets that when it creates one.
            Err(Errno::NOENT) => reply.entry(&TTL, &absent(), GENERATION),
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Creates an object and counts the reference that the answer gives the kernel.
    fn make_held(
        &self,
        caller: &Caller,
        dir: Ino,
        name: &OsStr,
        object: NewObject<'_>,
        mode: u32,
    ) -> Result<(Ino, Attr), Errno> {
        let (ino, attr) = self
            .shared
            .layer
            .make(caller, dir, name, object, mode & 0o7777)?;
        // Nobody else can have seen the new name yet (the kernel holds the directory's lock), so
        // no forget can have crossed.
        self.shared.table.add(ino, &attr, self.shared.table.mark());
        Ok((ino, attr))
    }

    pub(super) fn make(
        &self,
        caller: &Caller,
        dir: Ino,
        name: &OsStr,
        object: NewObject<'_>,
        mode: u32,
        reply: ReplyEntry,
    ) {
        match self.make_held(caller, dir, name, object, mode) {
            Ok((ino, attr)) => reply.entry(&TTL, &file_attr(ino, &attr), GENERATION),
            Err(error) => reply.error(errno(error)),
        }
    }

    pub(super) fn make_node(
        &self,
        caller: &Caller,
        dir: Ino,
        name: &OsStr,
        mode: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let object = match kind_of_mode(mode) {
            Some(Kind::File) => NewObject::File,
            Some(kind) => NewObject::Special(kind, rdev),
            None => return reply.error(errno(Errno::INVAL)),
        };
        self.make(caller, dir, name, object, mode, reply);
    }

    pub(super) fn link_name(&self, ino: Ino, dir: Ino, name: &OsStr, reply: ReplyEntry) {
        match self.shared.layer.link(ino, dir, name) {
            Ok(attr) => {
                self.shared.table.add(ino, &attr, self.shared.table.mark());
                reply.entry(&TTL, &file_attr(ino, &attr), GENERATION);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    pub(super) fn read_link(&self, ino: Ino, reply: ReplyData) {
        match self.shared.layer.read_link(ino) {
            Ok(target) => reply.data(target.as_bytes()),
            Err(error) => reply.error(errno(error)),
        }
    }
}
