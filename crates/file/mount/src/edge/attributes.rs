//! Requests about attributes and extended attributes.

use super::Edge;
use crate::convert::{TTL, errno, file_attr};
use crate::{Attr, Caller, Errno, Ino, SetAttr};
use fuser::{ReplyAttr, ReplyStatfs, ReplyXattr};

impl Edge {
    pub(super) fn reply_attr(&self, ino: Ino, attr: Result<Attr, Errno>, reply: ReplyAttr) {
        match attr {
            Ok(attr) => reply.attr(&TTL, &file_attr(ino, &attr)),
            Err(error) => reply.error(errno(error)),
        }
    }

    pub(super) fn change(&self, caller: &Caller, ino: Ino, change: SetAttr, reply: ReplyAttr) {
        let result = self.changed(caller, ino, change);
        if let Ok(attr) = &result {
            self.shared.table.note(ino, attr);
        }
        self.reply_attr(ino, result, reply);
    }

    fn changed(&self, caller: &Caller, ino: Ino, mut change: SetAttr) -> Result<Attr, Errno> {
        // Truncation takes set-id bits away unless the caller has CAP_FSETID, which a request
        // says in a flag that fuser does not pass on: root is taken to have it, others not.
        let truncates = change.size.is_some() && change.mode.is_none();
        if truncates && caller.uid != 0 && self.shared.table.has_set_id(ino) {
            change.mode = self.without_set_id(ino)?;
        }
        self.shared.layer.set_attr(caller, ino, &change)
    }

    /// The mode of `ino` as a write by an ordinary user leaves it; `None` where it stays.
    pub(super) fn without_set_id(&self, ino: Ino) -> Result<Option<u32>, Errno> {
        let mode = u32::from(self.shared.layer.attr(ino)?.perm);
        // Set-group-id without group execute marks mandatory locking, not a privilege
        // (`setattr_should_drop_suidgid` in fs/attr.c).
        let drop = 0o4000 | if mode & 0o010 != 0 { 0o2000 } else { 0 };
        Ok((mode & drop != 0).then_some(mode & !drop))
    }

    pub(super) fn space(&self, reply: ReplyStatfs) {
        match self.shared.layer.space() {
            Ok(space) => {
                let block = u64::from(space.block_bytes.max(1));
                reply.statfs(
                    space.total_bytes / block,
                    space.free_bytes / block,
                    space.available_bytes / block,
                    space.files,
                    space.files_free,
                    space.block_bytes,
                    space.name_max,
                    space.block_bytes,
                );
            }
            Err(error) => reply.error(errno(error)),
        }
    }
}

/// Answers with the value, or with its length where the kernel gave no room (`size` 0).
pub(super) fn reply_xattr(value: Result<Vec<u8>, Errno>, size: u32, reply: ReplyXattr) {
    match value {
        Ok(value) => match u32::try_from(value.len()) {
            Ok(length) if size == 0 => reply.size(length),
            Ok(length) if length <= size => reply.data(&value),
            _ => reply.error(errno(Errno::RANGE)),
        },
        Err(error) => reply.error(errno(error)),
    }
}
