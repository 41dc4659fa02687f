//! Comparing all copies, of a running set or of one that does not run.

use super::{Candidate, Engine, OpenError};
use crate::check::{CheckReport, Checker};
use crate::label::StoreMask;
use crate::set::assemble;
use crate::status::{Progress, ScrubStatus};
use mount::Result;

impl Engine {
    /// Compares all copies on the members, read-only. Changes go on meanwhile; where copies differ
    /// they are held up for a moment and everything is compared once more, so that a change under
    /// way is not taken for a difference.
    pub fn check(&self, on_progress: &mut dyn FnMut(&Progress) -> bool) -> Result<CheckReport> {
        let mut report = self.compare(on_progress)?;
        if report.differences > 0 && !report.stopped {
            let _still = self.gate.write();
            report = self.compare(on_progress)?;
        }
        if !report.stopped {
            *self.last_scrub.lock() = Some(ScrubStatus {
                finished_s: env::wall_time().seconds,
                objects: report.objects,
                differences: report.differences,
            });
        }
        Ok(report)
    }

    fn compare(&self, on_progress: &mut dyn FnMut(&Progress) -> bool) -> Result<CheckReport> {
        let checker = Checker {
            set: self.set.short(),
            stores: self.member_stores(),
            on_progress,
            report: CheckReport::default(),
        };
        checker.run()
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
        let checker = Checker {
            set: assembly.header.set.short(),
            stores,
            on_progress,
            report: CheckReport::default(),
        };
        let report = checker.run().map_err(OpenError::Recovery)?;
        Ok((report, assembly.missing))
    }
}

type Opened<T> = std::result::Result<T, OpenError>;
