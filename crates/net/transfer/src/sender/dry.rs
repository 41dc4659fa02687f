//! What a transfer would do.

use super::Sender;
use crate::entry::What;
use crate::error::TransferError;
use crate::message::{Index, Plan, ToSender};
use crate::report::Planned;

impl Sender<'_> {
    /// Offers all, and takes down what would come of it.
    pub(super) fn run_dry(&mut self) -> Result<(), TransferError> {
        while !self.walked {
            let first = self.next;
            self.offer()?;
            self.offers.clear();
            if self.next == first {
                continue;
            }
            loop {
                match self.hear_one()?.0 {
                    ToSender::Plans { first: of, plans } if of == first => {
                        self.planned(first, &plans)?;
                        break;
                    }
                    other => self.heard(other)?,
                }
            }
            self.flight.clear();
            self.show();
        }
        self.sweep()
    }

    fn planned(&mut self, first: Index, plans: &[Plan]) -> Result<(), TransferError> {
        if plans.len() as u64 != self.next - first {
            return Err(TransferError::Violation("an answer of another length"));
        }
        for (index, plan) in (first..).zip(plans) {
            let Some(sent) = self.flight.get(&index) else {
                continue;
            };
            let (path, bytes) = (sent.entry.path.clone(), sent.bytes());
            let is_file = matches!(sent.entry.what, What::File(_));
            // Directories are told of when they are entered.
            if sent.entry.what == What::Leave {
                continue;
            }
            let planned = match plan {
                Plan::New => Planned::New,
                Plan::Replace => Planned::Replace,
                Plan::Compare => Planned::Compare,
                Plan::Same => continue,
                Plan::InTheWay => {
                    self.problem(path, "something else is in its place".to_owned());
                    continue;
                }
            };
            match (planned, is_file) {
                (Planned::Compare, _) => self.report.kept += 1,
                (_, true) => {
                    self.report.files += 1;
                    self.report.bytes += bytes;
                }
                (_, false) => self.report.others += 1,
            }
            self.report.plan(path, planned);
        }
        Ok(())
    }
}
