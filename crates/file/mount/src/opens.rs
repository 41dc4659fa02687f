//! For layers that want to know who has a file open.
//!
//! A layer without this is never asked about opens: the kernel skips them. One with it is told of
//! each open file, of each close by a process, and of the last; and gets the commands of ioctl(2).

use crate::{Caller, Ino, Result};

/// An open file: one for each open(2), the same in all processes that inherit it. Never used again
/// while the mount lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Handle(pub u64);

/// What the kernel is to do with its copy of a file's content before the answer goes out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pages {
    /// It is right.
    Keep,
    /// It is not what the layer has any more.
    Drop,
}

/// The answer to a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// What the caller gets: at most as many bytes as it has room for.
    pub result: Result<Vec<u8>>,
    /// What becomes of the kernel's pages, also where the command failed.
    pub pages: Pages,
}

impl Answer {
    /// One that leaves the pages as they are.
    pub fn of(result: Result<Vec<u8>>) -> Answer {
        Answer {
            result,
            pages: Pages::Keep,
        }
    }
}

/// What a layer does about open files.
pub trait Opens: Send + Sync {
    /// A file was opened, for writing or not. On an error it is not open.
    ///
    /// # Errors
    /// ESTALE where the file is gone.
    fn open(&self, ino: Ino, handle: Handle, write: bool) -> Result<()>;
    /// A process closes one of its descriptors of this handle; others may be left. Only of handles
    /// that may write.
    fn flush(&self, caller: &Caller, ino: Ino, handle: Handle) -> Pages;
    /// The last descriptor is closed, and nothing is mapped any more.
    fn release(&self, ino: Ino, handle: Handle) -> Pages;
    /// A command of ioctl(2) whose number says how long what goes in and comes out is.
    fn command(
        &self,
        caller: &Caller,
        ino: Ino,
        handle: Handle,
        number: u32,
        input: &[u8],
        output_bytes: usize,
    ) -> Answer;
}
