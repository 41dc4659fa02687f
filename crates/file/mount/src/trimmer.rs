//! Keeps the number of inodes that the kernel holds under a limit, so that the memory of a walk
//! over millions of files is bounded.

use crate::table::Table;
use crate::{Ino, Layer};
use fuser::{INodeNo, Notifier};
use rustix::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Inodes that one notification names at most.
const BATCH: usize = 2048;

/// How long the kernel's forgets for one notification may take before the next is sent. They come
/// through the request threads, behind what users ask.
const PATIENCE: Duration = Duration::from_millis(100);

/// `FUSE_NOTIFY_PRUNE` of include/uapi/linux/fuse.h.
const NOTIFY_PRUNE: i32 = 9;

/// How the kernel is asked to let go.
pub(crate) enum Means {
    /// `FUSE_NOTIFY_PRUNE` (protocol 7.45, Linux 6.18): the kernel drops the inodes that are not
    /// in use and leaves the others alone. fuser has no call for it, so it is written to the
    /// device here.
    Prune(OwnedFd),
    /// `FUSE_NOTIFY_INVAL_ENTRY` for older kernels. It takes the name out of the kernel's cache
    /// even while the file is open, which then shows as "(deleted)" under /proc/PID/fd, though
    /// it works; a directory in use would lose its path, so directories are left alone.
    Invalidate(Notifier),
}

/// Runs until `stop`: on its own thread, for the kernel may send requests before a notification
/// returns.
pub(crate) fn run(
    table: &Table,
    layer: &Arc<dyn Layer>,
    means: &Means,
    limit: usize,
    stop: &AtomicBool,
) {
    // Below the limit by an eighth, so that not every new inode wakes the trimmer.
    let low = limit - limit / 8;
    let mut fruitless = 0;
    while !stop.load(Ordering::Relaxed) {
        table.wait(limit, Duration::from_secs(1));
        let before = table.len();
        if before <= limit {
            fruitless = 0;
            continue;
        }
        let unused = table.unused(4 * BATCH, BATCH.min(before - low));
        if let Err(error) = drop_unused(layer, means, &unused) {
            tracing::debug!(%error, "the kernel did not take a cache notification");
        }
        // The kernel's forgets come through the request threads; they are counted down there.
        let target = before.saturating_sub(unused.len() / 2);
        if !table.wait_below(target, PATIENCE) {
            fruitless += 1;
        } else {
            fruitless = 0;
        }
        // A whole turn of the clock found everything in use: give the users time.
        if fruitless > before / BATCH + 2 {
            table.pause(stop, Duration::from_secs(1));
            fruitless = 0;
        }
    }
}

fn drop_unused(
    layer: &Arc<dyn Layer>,
    means: &Means,
    unused: &[(Ino, bool)],
) -> std::io::Result<()> {
    if unused.is_empty() {
        return Ok(());
    }
    match means {
        Means::Prune(device) => prune(device, unused),
        Means::Invalidate(notifier) => {
            for (ino, directory) in unused {
                if *directory {
                    continue;
                }
                if let Some((parent, name)) = layer.name_of(*ino) {
                    notifier.inval_entry(INodeNo(parent.0), &name)?;
                }
            }
            Ok(())
        }
    }
}

/// `struct fuse_out_header` with a notification's code in place of an error, then
/// `struct fuse_notify_prune_out` (count, padding, spare) and the node ids.
fn prune(device: &OwnedFd, unused: &[(Ino, bool)]) -> std::io::Result<()> {
    let length = 16 + 16 + 8 * unused.len();
    let mut message = Vec::with_capacity(length);
    message.extend_from_slice(&(length as u32).to_ne_bytes());
    message.extend_from_slice(&NOTIFY_PRUNE.to_ne_bytes());
    message.extend_from_slice(&0u64.to_ne_bytes());
    message.extend_from_slice(&(unused.len() as u32).to_ne_bytes());
    message.extend_from_slice(&[0; 12]);
    for (ino, _) in unused {
        message.extend_from_slice(&ino.0.to_ne_bytes());
    }
    rustix::io::writev(device, &[IoSlice::new(&message)])?;
    Ok(())
}
