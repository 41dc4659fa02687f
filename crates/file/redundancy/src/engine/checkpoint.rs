//! Checkpoints: what every member has made durable leaves the journal.

use super::Engine;
use crate::journal::Failed;
use env::errno::Errno;
use mount::Result;

/// Attempts before a checkpoint gives up; each fences a store that failed.
const ATTEMPTS: usize = 4;

impl Engine {
    /// Makes everything durable on every member and shortens the journal to what has changed
    /// meanwhile. Changes go on during all but the first moment.
    pub fn checkpoint(&self) -> Result<()> {
        let _one = self.keeper.checkpointing.lock();
        self.close_idle();
        self.close_forgotten();
        let (sweep, dir_ops) = {
            let _gate = self.gate.write();
            (
                self.journal.begin_sweep(self.peek_id()),
                self.dir_ops.lock().list.clone(),
            )
        };
        if let Some(delayed) = self.encoded.delayed() {
            self.until_it_holds(|| delayed.sync_all())?;
        }
        let mut synced = false;
        for _ in 0..ATTEMPTS {
            let stores = self.member_stores();
            let before = self.members();
            self.on_all(&stores, |_, store| store.sync_all())?;
            if self.members() == before {
                synced = true;
                break;
            }
        }
        if !synced {
            return Err(Errno::IO);
        }
        self.synced_dir_ops(&dir_ops);
        // Merging twice into what an absent store has not seen is harmless.
        let mut recorded = Err(Errno::AGAIN);
        for _ in 0..ATTEMPTS {
            recorded = self.record_dirty(&sweep.settled);
            if recorded != Err(Errno::AGAIN) {
                break;
            }
        }
        recorded?;
        if let Err(Failed(stores)) = self.journal.end_sweep(&sweep) {
            for (store, error) in stores {
                self.fence(store, &format!("its journal cannot be written: {error}"))?;
            }
        }
        Ok(())
    }

    /// Closes the files of inodes that the kernel has let go of.
    pub(crate) fn close_forgotten(&self) {
        let mut gone = std::mem::take(&mut *self.closing.lock());
        gone.extend(self.inodes.sweep());
        for inode in gone {
            let _gate = self.gate.read();
            self.close_files(&inode);
        }
    }

    /// Gives the copies of files that were written and are still open equal times.
    fn close_idle(&self) {
        let queue: Vec<_> = self
            .open_queue
            .lock()
            .iter()
            .filter_map(|w| w.upgrade())
            .collect();
        for inode in queue {
            if let Some(open) = inode.open_files() {
                let _gate = self.gate.read();
                self.equal_times(&inode, &open);
            }
        }
    }
}
