//! The garbage collector: gives back what removed files and crashes left.

use crate::check::Finding;
use crate::key::ObjectKey;
use crate::store::{Store, Transaction};
use crate::{Header, MetaError, Result, Tag};
use env::handle::Handle;

/// What to do with objects whose owner is there and has lost its attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unlinked {
    /// Leave them: whoever stripped the attribute may put it back.
    Keep,
    /// Remove them.
    Remove,
}

/// What a collection did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GarbageReport {
    /// Objects removed.
    pub objects: u64,
    /// References of removed owners that were taken back.
    pub references: u64,
    /// Findings of the check that are no garbage; they were left as they are.
    pub left: u64,
}

impl Store {
    /// Checks the store, removes objects whose owner is gone or which nobody refers to, and takes
    /// back references of owners that are gone. Each removal is a request of its own: a crash
    /// leaves the rest for the next time.
    ///
    /// # Errors
    /// As [`Store::check`] and [`crate::Request::commit`].
    pub fn collect_garbage(&self, unlinked: Unlinked) -> Result<GarbageReport> {
        let findings = self.check()?.findings;
        let mut report = GarbageReport::default();
        for finding in findings {
            match finding {
                Finding::Unfinished { object } => {
                    self.change(|txn| {
                        let away = txn.is_staged(&object) || txn.is_away(&object);
                        if !away && txn.header(&object)?.is_none() {
                            txn.remove(&object);
                            report.objects += 1;
                        }
                        Ok(())
                    })?;
                }
                Finding::OwnerGone { object, owner } | Finding::Unreferenced { object, owner } => {
                    self.change(|txn| txn.collect(&object, &owner, true, &mut report))?;
                }
                Finding::Unlinked { object, owner } if unlinked == Unlinked::Remove => {
                    self.change(|txn| txn.collect(&object, &owner, false, &mut report))?;
                }
                Finding::SharerGone {
                    number,
                    place,
                    owner,
                } => {
                    self.change(|txn| {
                        let gone = matches!(txn.composite(&owner), Err(MetaError::OwnerGone));
                        if gone && txn.enrolled(number, place)? == Some(owner) {
                            txn.leave(&owner, number, place)?;
                            report.references += 1;
                        }
                        Ok(())
                    })?;
                }
                _ => report.left += 1,
            }
        }
        self.flush()?;
        Ok(report)
    }
}

impl Transaction<'_> {
    /// Removes a linked object unless its owner refers to it after all, or, with `careful`, has
    /// no attribute that could say so.
    fn collect(
        &mut self,
        key: &ObjectKey,
        owner: &Handle,
        careful: bool,
        report: &mut GarbageReport,
    ) -> Result<()> {
        let Some(Header {
            tag, references, ..
        }) = self.header(key)?
        else {
            return Ok(());
        };
        let unused = match self.composite(owner) {
            Err(MetaError::OwnerGone) => true,
            Ok(composite) => {
                let entry = Tag::new(tag).and_then(|tag| composite.entries.get(&tag));
                let refers = matches!(
                    entry,
                    Some(crate::Entry::Linked(number)) if ObjectKey::Linked(*number) == *key
                );
                let sure = !careful || references == 0 || self.has_attribute(owner);
                !refers && !self.is_staged(key) && sure
            }
            Err(_) => false,
        };
        if unused {
            self.remove(key);
            report.objects += 1;
        }
        Ok(())
    }
}
