//! Large contents are written aside before anything refers to them.

use super::{Store, Transaction};
use crate::block::{BLOCK_BYTES, blocks, file_at};
use crate::header::{HEADER_AREA_BYTES, Header, OBJECT_BYTES_MAX};
use crate::key::{Number, ObjectKey, Tag};
use crate::{MetaError, Result};
use env::handle::Handle;

/// Blocks that are written at a time.
const BLOCKS_AT_A_TIME: u64 = 256;

impl Store {
    /// Writes a linked object that nothing refers to yet, durably.
    pub(crate) fn stage(&self, owner: &Handle, tag: Tag, content: &[u8]) -> Result<Number> {
        let length = content.len() as u64;
        if length > OBJECT_BYTES_MAX {
            return Err(MetaError::object_too_long(length));
        }
        let number = self.with_state(|state| {
            let number = state.take_number()?;
            state.staged.insert(number);
            Ok(number)
        })?;
        let header = Header {
            length,
            ..Header::new(number.get(), tag.get(), owner.as_bytes())
        };
        let written = self.write_aside(&ObjectKey::Linked(number), &header, content);
        if let Err(errno) = written {
            self.unstage(&[number], true);
            return Err(MetaError::io("writing metadata aside")(errno));
        }
        Ok(number)
    }

    fn write_aside(&self, key: &ObjectKey, header: &Header, content: &[u8]) -> env::Result<()> {
        let identity = key.identity(self.id, header.generation);
        let disk = self.objects.make(&key.file_name())?;
        let count = blocks(header.length);
        let mut at = 0;
        while at < count {
            let end = count.min(at + BLOCKS_AT_A_TIME);
            let mut bytes = Vec::with_capacity((end - at) as usize * BLOCK_BYTES);
            for index in at..end {
                let mut block = super::transaction::whole_block(content, index);
                block.seal(&identity, index);
                bytes.extend_from_slice(block.bytes());
            }
            if at == 0 {
                let head = header.encode(key, self.id);
                assert!(head.len() <= HEADER_AREA_BYTES, "the header fits its area");
                bytes[..head.len()].copy_from_slice(&head);
            }
            disk.write_at(file_at(at), &bytes)?;
            at = end;
        }
        disk.sync()?;
        #[cfg(test)]
        if self.state.lock().planted == super::Planted::StagesWithoutDirSync {
            return Ok(());
        }
        self.objects.sync()
    }

    /// These objects are no longer only ours; `remove` where nobody will refer to them.
    pub(crate) fn unstage(&self, numbers: &[Number], remove: bool) {
        if numbers.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        for number in numbers {
            state.staged.remove(number);
            if remove {
                // What stays is the garbage collector's.
                let _ = state.medium.remove(&ObjectKey::Linked(*number));
            }
        }
    }
}

impl Transaction<'_> {
    /// Whether an object is being written aside.
    pub(crate) fn is_staged(&self, key: &ObjectKey) -> bool {
        matches!(key, ObjectKey::Linked(number) if self.state.staged.contains(number))
    }
}
