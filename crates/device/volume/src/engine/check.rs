//! Looking at every block that counts.

use super::Volume;
use crate::block::Block;
use crate::error::{Result, VolumeError};
use crate::id::{BlockIndex, ObjectId};
use crate::map::Mapped;
use serde::Serialize;

/// Blocks that are read at once.
const CHECK_BLOCKS: u32 = 256;

/// Blocks of an object whose content is lost.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Damage {
    /// The object.
    pub object: u64,
    /// The block of it, counted in 4096 bytes.
    pub block: u32,
    /// What is wrong.
    pub complaint: String,
}

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CheckReport {
    /// Objects.
    pub objects: u64,
    /// Blocks that were read and compared with their checksums.
    pub blocks: u64,
    /// Blocks that are lost.
    pub damaged: Vec<Damage>,
}

impl Volume {
    /// Reads every block that counts and holds it against its checksum; calls `progress` with the
    /// blocks done and all.
    ///
    /// # Errors
    /// Of the disk. Damage is no error here: the report has it.
    pub fn check(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<CheckReport> {
        let mut report = CheckReport::default();
        let all = self.state.lock().map.mapped_blocks();
        for (object, _) in self.objects() {
            report.objects += 1;
            let mut next = BlockIndex(0);
            while let Some((block, count)) = self.next_run(object, next) {
                self.check_run(object, block, count, &mut report)?;
                next = block.after(count);
                progress(report.blocks, all);
            }
        }
        Ok(report)
    }

    /// The next blocks of an object that have content, from `block` on.
    fn next_run(&self, object: ObjectId, block: BlockIndex) -> Option<(BlockIndex, u32)> {
        let state = self.state.lock();
        let mut at = state.map.next_leaf(object, block)?;
        loop {
            match state.map.find(object, at, CHECK_BLOCKS) {
                (Mapped::Hole, count) => at = state.map.next_leaf(object, at.after(count))?,
                (_, count) => return Some((at, count)),
            }
        }
    }

    fn check_run(
        &self,
        object: ObjectId,
        block: BlockIndex,
        count: u32,
        report: &mut CheckReport,
    ) -> Result<()> {
        let mut blocks = Block::zeros(count as usize);
        report.blocks += u64::from(count);
        if self.read_blocks(object, block, &mut blocks).is_ok() {
            return Ok(());
        }
        for at in 0..count {
            let block = block.after(at);
            let mut one = Block::zeros(1);
            match self.read_blocks(object, block, &mut one) {
                Ok(()) => {}
                Err(
                    error @ (VolumeError::Corrupt { .. }
                    | VolumeError::Lost { .. }
                    | VolumeError::Io { .. }),
                ) => report.damaged.push(Damage {
                    object: object.0,
                    block: block.0,
                    complaint: error.to_string(),
                }),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
