//! Having deleted what the source does not have.

use super::Sender;
use crate::entry::TreePath;
use crate::error::TransferError;
use crate::message::{Problem, ToReceiver, ToSender};
use crate::report::Planned;

impl Sender<'_> {
    /// The last step, and only where nothing is missing.
    pub(super) fn sweep(&mut self) -> Result<(), TransferError> {
        let Some(deletion) = self.options.delete else {
            return Ok(());
        };
        let missing = self.report.problems.iter().any(|problem| problem.missing);
        if missing || self.report.problems_more > 0 {
            self.nothing_deleted("not all of the source is in place");
            return Ok(());
        }
        let max = deletion.max;
        self.say(&ToReceiver::Sweep { max }, &[])?;
        loop {
            match self.hear_one()?.0 {
                ToSender::Going { paths } if self.options.dry => {
                    for path in paths {
                        self.report.plan(path, Planned::Delete);
                    }
                }
                ToSender::Swept {
                    found,
                    deleted,
                    refused,
                    placed,
                } => {
                    self.report.add(placed);
                    self.report.extra = found;
                    self.report.deleted = deleted;
                    match (refused, max) {
                        (Some(why), _) => self.nothing_deleted(&why),
                        (None, Some(max)) if found > max => {
                            self.nothing_deleted(&format!(
                                "{found} objects would go, and at most {max} may"
                            ));
                        }
                        _ => {}
                    }
                    return Ok(());
                }
                other => self.heard(other)?,
            }
        }
    }

    fn nothing_deleted(&mut self, why: &str) {
        self.report.problem(Problem {
            path: TreePath::root(),
            what: format!("nothing is deleted: {why}"),
            missing: false,
        });
    }
}
