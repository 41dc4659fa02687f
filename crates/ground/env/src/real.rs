//! The machine that we run on.

mod aligned;
mod clock;
mod dir;
mod disk;
mod files;
mod net;
mod ring;

pub use clock::RealClock;
pub use dir::RealDir;
pub use disk::RealDisk;
pub use files::RealFiles;
pub use net::{RealNet, connected_child, connected_pair, stream_of};
pub use ring::batches_use_io_uring;

use crate::Result;
use crate::errno::Errno;

/// Repeats a system call that a signal interrupted before it did anything.
fn uninterrupted<T>(mut call: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            answer => return answer,
        }
    }
}
