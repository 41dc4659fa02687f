//! Comparing all copies, of a running set or of one that does not run.

use super::{Candidate, Engine, OpenError};
use crate::check::{CheckReport, Checker};
use crate::encoded;
use crate::label::{StoreIndex, StoreMask};
use crate::set::assemble;
use crate::status::{Progress, ScrubStatus};
use env::errno::Errno;
use mount::Result;

impl Engine {
    /// Compares all copies on the members, read-only. Changes go on meanwhile; where copies differ
    /// they are held up for a moment and everything is compared once more, so that a change under
    /// way is not taken for a difference.
    pub fn check(&self, on_progress: &mut dyn FnMut(&Progress) -> bool) -> Result<CheckReport> {
        self.compare_and(false, on_progress)
    }

    /// As [`Engine::check`]. A store that lacks copies, where that is all that is wrong and every
    /// place has its member, is then taken out of use, and comes back with them: until then it does
    /// not count as redundancy.
    pub fn repair(&self, on_progress: &mut dyn FnMut(&Progress) -> bool) -> Result<CheckReport> {
        self.compare_and(true, on_progress)
    }

    fn compare_and(
        &self,
        repair: bool,
        on_progress: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<CheckReport> {
        let mut report = self.compare(on_progress)?;
        if report.differences > 0 && !report.stopped {
            let _still = self.gate.write();
            report = self.compare(on_progress)?;
            if repair {
                report.healing = self.heal(&report);
            }
        }
        self.report_lost(&mut report);
        if !report.stopped {
            *self.last_scrub.lock() = Some(ScrubStatus {
                finished_s: env::wall_time().seconds,
                objects: report.objects,
                differences: report.differences,
            });
        }
        Ok(report)
    }

    /// Fences the one store that lacks copies. Two that lack some, or copies that differ, leave it
    /// open which store is right: then nothing is done, because what a store that comes back has
    /// and the others lack is removed from it.
    fn heal(&self, report: &CheckReport) -> Option<StoreIndex> {
        let whole = self.members().count() == self.slots.len();
        let settled = report.only_missing && report.lacking.count() == 1 && !report.stopped;
        let store = report.lacking.iter().next().filter(|_| whole && settled)?;
        match self.fence_for(store, Errno::UCLEAN) {
            Ok(()) => Some(store),
            Err(errno) => {
                tracing::warn!(store = store.0, %errno, "a store that lacks copies is still in use");
                None
            }
        }
    }

    fn compare(&self, on_progress: &mut dyn FnMut(&Progress) -> bool) -> Result<CheckReport> {
        Checker::new(self.set.short(), self.member_stores(), on_progress).run()
    }

    /// Compares all copies of a set that does not run, without changing anything. Returns the
    /// members that were not there, too.
    pub fn check_offline(
        candidates: &[Candidate],
        gone: StoreMask,
        on_progress: &mut dyn FnMut(&Progress) -> bool,
    ) -> std::result::Result<(CheckReport, StoreMask), OpenError> {
        let found = candidates
            .iter()
            .map(super::open::presence)
            .collect::<Opened<Vec<_>>>()?;
        let assembly = assemble(&found, gone)?;
        let mut stores = Vec::new();
        for (candidate, place) in candidates.iter().zip(&assembly.places) {
            if let (Some(index), Ok(store)) = (place, &candidate.store) {
                stores.push((*index, store.clone()));
            }
        }
        let set = assembly.header.set;
        let given_up = encoded::index_of(set, &stores).map_err(OpenError::Recovery)?;
        let checker = Checker::new(set.short(), stores, on_progress).without(given_up);
        let report = checker.run().map_err(OpenError::Recovery)?;
        Ok((report, assembly.missing))
    }
}

type Opened<T> = std::result::Result<T, OpenError>;
