//! Requests about open files, for layers that want them.

use super::Edge;
use crate::convert::errno;
use crate::opens::{Handle, Pages};
use crate::{Caller, Errno, Ino};
use fuser::{
    FopenFlags, INodeNo, Notifier, OpenAccMode, OpenFlags, ReplyEmpty, ReplyIoctl, ReplyOpen,
};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// `O_DIRECT` of open(2).
const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;

/// Something to be answered once the kernel has let go of a file's pages.
type Waiting = (Ino, Box<dyn FnOnce() + Send>);

/// Handles given out, and the way to the thread that makes the kernel let go of pages.
#[derive(Default)]
pub(crate) struct Open {
    last: AtomicU64,
    drops: Mutex<Option<Sender<Waiting>>>,
}

impl Open {
    /// Opens the way; the receiver's end is for [`run`].
    pub(crate) fn drops(&self) -> Receiver<Waiting> {
        let (give, take) = channel();
        *self.drops.lock() = Some(give);
        take
    }

    /// Closes it; [`run`] ends.
    pub(crate) fn end(&self) {
        self.drops.lock().take();
    }

    /// Answers after the kernel has let go of the pages, where that is wanted. To ask it for that can
    /// wait for pages that are being read, so no thread that answers requests does it.
    fn answer(&self, ino: Ino, pages: Pages, answer: impl FnOnce() + Send + 'static) {
        let drops = self.drops.lock();
        match (pages, &*drops) {
            (Pages::Drop, Some(drops)) => {
                if let Err(back) = drops.send((ino, Box::new(answer))) {
                    let (_, answer) = back.0;
                    answer();
                }
            }
            _ => answer(),
        }
    }
}

/// Makes the kernel let go of pages until the session ends: on a thread of its own.
pub(crate) fn run(notifier: &Notifier, waiting: &Receiver<Waiting>) {
    for (ino, answer) in waiting {
        if let Err(error) = notifier.inval_inode(INodeNo(ino.0), 0, 0) {
            tracing::debug!(%error, "the kernel did not take a cache notification");
        }
        answer();
    }
}

impl Edge {
    pub(super) fn open_file(&self, ino: Ino, flags: OpenFlags, reply: ReplyOpen) {
        let Some(opens) = self.shared.layer.opens() else {
            return reply.error(fuser::Errno::ENOSYS);
        };
        let open = &self.shared.open;
        let handle = Handle(open.last.fetch_add(1, Ordering::Relaxed) + 1);
        let write = flags.acc_mode() != OpenAccMode::O_RDONLY;
        let is_direct = flags.0 & O_DIRECT != 0;
        let kernel = self.shared.kernel.get();
        let direct_maps = kernel.is_some_and(|kernel| kernel.direct_maps);
        match opens.open(ino, handle, write) {
            Ok(()) => {
                let mut flags = FopenFlags::FOPEN_KEEP_CACHE;
                if !write {
                    flags |= FopenFlags::FOPEN_NOFLUSH;
                }
                if is_direct && direct_maps {
                    // The kernel lets one thread write at a time else, and in a file that somebody
                    // has open for its cache it goes on to.
                    flags |= FopenFlags::FOPEN_DIRECT_IO;
                    flags |= FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
                }
                reply.opened(fuser::FileHandle(handle.0), flags);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    pub(super) fn flush_file(&self, caller: &Caller, ino: Ino, handle: Handle, reply: ReplyEmpty) {
        let Some(opens) = self.shared.layer.opens() else {
            return reply.error(fuser::Errno::ENOSYS);
        };
        let pages = opens.flush(caller, ino, handle);
        self.shared.open.answer(ino, pages, || reply.ok());
    }

    pub(super) fn release_file(&self, ino: Ino, handle: Handle, reply: ReplyEmpty) {
        let pages = match self.shared.layer.opens() {
            Some(opens) => opens.release(ino, handle),
            None => Pages::Keep,
        };
        self.shared.open.answer(ino, pages, || reply.ok());
    }

    pub(super) fn command(
        &self,
        caller: &Caller,
        (ino, handle): (Ino, Handle),
        number: u32,
        input: &[u8],
        output_bytes: u32,
        reply: ReplyIoctl,
    ) {
        let Some(opens) = self.shared.layer.opens() else {
            return reply.error(fuser::Errno::ENOTTY);
        };
        let room = output_bytes as usize;
        let answer = opens.command(caller, ino, handle, number, input, room);
        self.shared
            .open
            .answer(ino, answer.pages, move || match answer.result {
                Ok(output) if output.len() <= room => reply.ioctl(0, &output),
                Ok(_) => reply.error(errno(Errno::INVAL)),
                Err(error) => reply.error(errno(error)),
            });
    }
}
