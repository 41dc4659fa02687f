//! Directories that are kept open between calls: opening one by its handle, and closing it, costs
//! more than the call that it is opened for.

use crate::store::Node;
use mount::{Errno, Result};
use parking_lot::Mutex;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Directories kept open at most.
const KEPT_MAX: usize = 64;

/// A directory, open as a place (`O_PATH`).
pub(super) struct Directory {
    descriptor: Arc<OwnedFd>,
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Directory {
    /// The answer to a call in this directory. What a directory that is gone answers, if it is
    /// still open, is ENOENT, as if only the name were not there; its node has to answer ESTALE.
    pub(super) fn answer<R>(&self, answer: Result<R>) -> Result<R> {
        match answer {
            Err(Errno::NOENT) if rustix::fs::fstat(self)?.st_nlink == 0 => Err(Errno::STALE),
            answer => answer,
        }
    }
}

/// The directories used last; those used often stay in front.
#[derive(Default)]
pub(super) struct Directories {
    kept: Mutex<Vec<(Node, Arc<OwnedFd>)>>,
}

impl Directories {
    /// The directory behind `node` where it is open.
    pub(super) fn get(&self, node: &Node) -> Option<Directory> {
        let mut kept = self.kept.lock();
        let at = kept.iter().position(|(kept, _)| kept == node)?;
        kept.swap(at, at / 2);
        let (_, descriptor) = kept.get(at / 2)?;
        Some(Directory {
            descriptor: Arc::clone(descriptor),
        })
    }

    /// Keeps a directory open.
    pub(super) fn keep(&self, node: &Node, descriptor: OwnedFd) -> Directory {
        let descriptor = Arc::new(descriptor);
        let kept = (node.clone(), Arc::clone(&descriptor));
        // Closed after the lock is let go.
        let _last = {
            let mut all = self.kept.lock();
            let last = if all.len() >= KEPT_MAX {
                all.pop()
            } else {
                None
            };
            all.push(kept);
            last
        };
        Directory { descriptor }
    }

    /// Closes all: one of them may have been removed and would take up room as long as it is open.
    pub(super) fn forget(&self) {
        let all = std::mem::take(&mut *self.kept.lock());
        drop(all);
    }
}
