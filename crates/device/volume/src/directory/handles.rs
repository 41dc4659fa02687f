//! Who has which file open.

use super::Tree;
use mount::opens::{Answer, Handle, Opens, Pages};
use mount::{Caller, Errno, Ino, Kind, Result};
use std::collections::HashMap;
use std::time::Duration;

/// Open files.
#[derive(Debug, Default)]
pub(super) struct Handles {
    /// Which file, and whether it may be written.
    open: HashMap<Handle, (Ino, bool)>,
    /// The thread that last began a batch through it, and that thread's process.
    starters: HashMap<Handle, (u32, u32)>,
    counts: HashMap<Ino, u32>,
}

impl Handles {
    pub(super) fn is_open(&self, ino: Ino) -> bool {
        self.counts.contains_key(&ino)
    }

    fn add(&mut self, handle: Handle, ino: Ino, write: bool) {
        self.open.insert(handle, (ino, write));
        *self.counts.entry(ino).or_default() += 1;
    }

    /// Whether nobody has its file open any more.
    fn remove(&mut self, handle: Handle) -> bool {
        let Some((ino, _)) = self.open.remove(&handle) else {
            return false;
        };
        self.starters.remove(&handle);
        match self.counts.get_mut(&ino) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            _ => self.counts.remove(&ino).is_some(),
        }
    }

    /// The process of a thread that begins a batch; `look` is asked where it is not the thread that did so
    /// before. That costs as much as all else that a start does. A number of a thread that came again in
    /// another process with the same handle would be taken for the first; then the close by the first drops
    /// the batch, and its commit fails.
    pub(super) fn process_of(
        &mut self,
        handle: Handle,
        thread: u32,
        look: impl FnOnce(u32) -> u32,
    ) -> u32 {
        match self.starters.get(&handle) {
            Some((known, process)) if *known == thread => *process,
            _ => {
                let process = look(thread);
                self.starters.insert(handle, (thread, process));
                process
            }
        }
    }

    /// Whether a handle may write.
    pub(super) fn writes(&self, handle: Handle) -> bool {
        self.open.get(&handle).is_some_and(|(_, write)| *write)
    }
}

impl Opens for Tree {
    fn open(&self, ino: Ino, handle: Handle, write: bool) -> Result<()> {
        // With the lock of the tree held nobody removes it between the look and the note.
        let mut state = self.state.write();
        state.inode(&self.volume, ino)?;
        self.handles.lock().add(handle, ino, write);
        Ok(())
    }

    fn flush(&self, caller: &Caller, ino: Ino, handle: Handle) -> Pages {
        let settled = self.complete(ino);
        if let Err(error) = settled.and_then(|()| self.settle_writes(Duration::MAX)) {
            tracing::error!(%error, ino = ino.0, "writes of a file that was closed failed");
        }
        self.close_batch(ino, handle, Some(caller.pid))
    }

    fn release(&self, ino: Ino, handle: Handle) -> Pages {
        let pages = self.close_batch(ino, handle, None);
        let last = self.handles.lock().remove(handle);
        if last
            && let Ok(inode) = self.inode(ino)
            && inode.links == 0
            && inode.kind != Kind::Dir
        {
            let buried = self.change(|draft| {
                // Somebody may have opened it again, through /proc/PID/fd.
                match self.handles.lock().is_open(ino) {
                    true => Ok(false),
                    false => draft.bury(ino).map(|()| true),
                }
            });
            match buried {
                Ok(true) => self.note_gone(ino, &inode),
                Ok(false) => {}
                // The next start takes it away.
                Err(error) => tracing::warn!(%error, ino = ino.0, "a removed file keeps its room"),
            }
        }
        pages
    }

    fn command(
        &self,
        caller: &Caller,
        ino: Ino,
        handle: Handle,
        number: u32,
        _input: &[u8],
        _output_bytes: usize,
    ) -> Answer {
        match self.atomic_command(caller, ino, handle, number) {
            Some(answer) => answer,
            None => Answer::of(Err(Errno::NOTTY)),
        }
    }
}
