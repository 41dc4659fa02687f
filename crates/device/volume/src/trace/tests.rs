//! Traces against a plain model, and programs that flush and that do not.

mod legal;
mod toy;
mod trouble;

use super::{Recorder, Trace};
use env::Disk;
use env::errno::Errno;
use parking_lot::Mutex;
use std::sync::Arc;

/// A disk in memory, which grows where it is written past its end, and fails once it is told so.
#[derive(Default)]
pub(super) struct Memory {
    bytes: Mutex<Vec<u8>>,
    fails: Mutex<Option<Errno>>,
}

impl Memory {
    pub(super) fn new(bytes: Vec<u8>) -> Arc<Memory> {
        Arc::new(Memory {
            bytes: Mutex::new(bytes),
            fails: Mutex::default(),
        })
    }

    pub(super) fn content(&self) -> Vec<u8> {
        self.bytes.lock().clone()
    }

    fn check(&self) -> env::Result<()> {
        self.fails.lock().map_or(Ok(()), Err)
    }
}

impl Disk for Memory {
    fn len(&self) -> env::Result<u64> {
        Ok(self.bytes.lock().len() as u64)
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> env::Result<()> {
        let bytes = self.bytes.lock();
        let start = offset as usize;
        let found = bytes.get(start..start + buffer.len());
        buffer.copy_from_slice(found.ok_or(Errno::INVAL)?);
        Ok(())
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> env::Result<()> {
        self.check()?;
        let mut bytes = self.bytes.lock();
        let end = offset as usize + data.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(data);
        Ok(())
    }
    fn sync(&self) -> env::Result<()> {
        self.check()
    }
    /// As it may: the range stays what it was.
    fn discard(&self, _: u64, _: u64) -> env::Result<()> {
        self.check()
    }
}

/// A recorder on a disk with this content, and the trace that it writes.
pub(super) fn recorder(content: Vec<u8>) -> (Recorder, Arc<Memory>, Arc<Memory>) {
    let (image, trace) = (Memory::new(content), Memory::new(Vec::new()));
    let recorder = Recorder::start(image.clone(), trace.clone(), 77).expect("it starts");
    (recorder, image, trace)
}

pub(super) fn open(trace: &Memory) -> Trace {
    Trace::open(Memory::new(trace.content())).expect("a trace")
}
