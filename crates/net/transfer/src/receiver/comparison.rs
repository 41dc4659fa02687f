//! Files that are there already, held against the sender's checksums.

use super::proof::drop_cache;
use super::{Comparing, Main, say, unwritten};
use crate::content::{is_zero, read_range, sums_of};
use crate::error::TransferError;
use crate::level::Level;
use crate::message::{Index, PAGE_BYTES, RANGE_BYTES, ToSender, Want};
use crate::root_sum::Summing;
use rustix::fs::fsync;

impl Main<'_> {
    pub(super) fn compare(
        &mut self,
        index: Index,
        offset: u64,
        bytes: u32,
        sums: &[u32],
    ) -> Result<(), TransferError> {
        self.begin_comparison(index)?;
        let length = bytes as usize;
        let fits = length <= RANGE_BYTES && sums.len() == length.div_ceil(PAGE_BYTES);
        let Some(comparing) = &mut self.comparing else {
            return Ok(());
        };
        if !fits || comparing.index != index || offset < comparing.at {
            return Err(TransferError::Violation("a comparison out of order"));
        }
        comparing.summing.add(offset, length, sums);
        if comparing.same {
            let mut buffer = vec![0; length];
            let gap = is_zero(&comparing.file, comparing.at, offset);
            let read = read_range(&comparing.file, offset, &mut buffer, true);
            comparing.same = gap == Ok(true) && read == Ok(length) && sums_of(&buffer) == sums;
        }
        comparing.at = offset.saturating_add(u64::from(bytes));
        Ok(())
    }

    /// Opens what is to be compared, so that it is read from where the level asks for.
    pub(super) fn begin_comparison(&mut self, index: Index) -> Result<(), TransferError> {
        if self.comparing.as_ref().is_some_and(|c| c.index == index) {
            return Ok(());
        }
        let (entry, source, want) = self.wanted(index)?;
        if want != Want::Compare || self.comparing.is_some() || self.kept.contains_key(&index) {
            return Err(TransferError::Violation("a comparison that nobody wanted"));
        }
        let path = entry.path.clone();
        let Ok(file) = self.root.file(&path) else {
            return Ok(());
        };
        self.root.forget();
        // What is dirty is not on the device. Where the kernel keeps some of it, as it does while a
        // program has it mapped, it is not proved: the content is wanted anew.
        fsync(&file).map_err(unwritten)?;
        let same = match self.level {
            Level::Device | Level::Medium => drop_cache(&file, (0, 0)) == Ok(0),
            Level::Wire | Level::Cache => true,
        };
        self.comparing = Some(Comparing {
            index,
            file,
            same,
            at: 0,
            bytes: source.bytes,
            summing: Summing::new(),
        });
        Ok(())
    }

    pub(super) fn compared(&mut self, index: Index) -> Result<(), TransferError> {
        self.begin_comparison(index)?;
        let same = match self.comparing.take() {
            Some(comparing) if comparing.index == index => {
                let rest = is_zero(&comparing.file, comparing.at, comparing.bytes);
                let same = comparing.same && rest == Ok(true);
                if same {
                    let sum = comparing.summing.finish();
                    self.kept
                        .insert(index, (comparing.file, comparing.bytes, sum));
                }
                same
            }
            _ => false,
        };
        say(
            self.channel,
            self.clock,
            self.settings,
            &ToSender::Verdict { index, same },
        )
    }
}
