//! Files that were right when they got into place, and that the medium has not kept.

use super::Sender;
use crate::error::TransferError;
use crate::level::Level;
use crate::message::{OFFER_ENTRIES, Placed, ToReceiver, ToSender};
use crate::walk::find;

/// How often a file is sent again.
const REPAIRS: usize = 3;

/// Most of them that are remembered.
const AGAIN_MAX: usize = 10_000;

impl Sender<'_> {
    /// Takes what became of a batch.
    pub(super) fn add(&mut self, mut placed: Placed) {
        for path in std::mem::take(&mut placed.again) {
            match self.again.len() < AGAIN_MAX {
                true => self.again.push(path),
                false => self.problem(path, "the medium has not kept it; send again".to_owned()),
            }
        }
        self.report.add(placed);
    }

    /// Has the receiver prove what waits, and sends again what it finds to be wrong.
    pub(super) fn mend(&mut self) -> Result<(), TransferError> {
        if self.options.level < Level::Medium {
            return Ok(());
        }
        for repairs in 0..=REPAIRS {
            let scratch = self.options.settle;
            self.say(&ToReceiver::Settle { scratch }, &[])?;
            loop {
                match self.hear_one()?.0 {
                    ToSender::Settled { placed } => break self.add(placed),
                    other => self.heard(other)?,
                }
            }
            let again = std::mem::take(&mut self.again);
            if again.is_empty() {
                return Ok(());
            }
            let mut again = again.into_iter().peekable();
            while again.peek().is_some() && repairs < REPAIRS {
                let first = self.next;
                let mut entries = Vec::new();
                for path in again.by_ref().take(OFFER_ENTRIES / 8) {
                    let Ok((entry, place)) = find(self.source, &path) else {
                        let what = "the medium has not kept it, and it cannot be sent again by \
                                    itself: send all again";
                        self.problem(path, what.to_owned());
                        continue;
                    };
                    entries.push(self.take(entry, place));
                }
                let count = entries.len();
                if count == 0 {
                    continue;
                }
                self.report.files_resent += count as u64;
                self.post(first, entries)?;
                self.send_all()?;
            }
            for path in again {
                let what = format!("the medium has not kept it after each of {REPAIRS} repairs");
                self.problem(path, what);
            }
        }
        Ok(())
    }
}
