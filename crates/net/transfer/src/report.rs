//! What came of a transfer.

use crate::entry::TreePath;
use crate::level::Level;
use crate::message::{Placed, Problem};
use serde::Serialize;

/// Most problems that a report names; how many there were is always told.
pub(crate) const PROBLEMS_MAX: usize = 10_000;

/// Most steps of a dry run that a report names.
const PLAN_MAX: usize = 200_000;

/// What a transfer would do with an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Planned {
    /// Make it, where nothing is.
    New,
    /// Replace what is there.
    Replace,
    /// Compare a file of the same length and time, and replace it where it differs.
    Compare,
    /// Delete it.
    Delete,
}

impl Planned {
    /// One word.
    pub fn word(self) -> &'static str {
        match self {
            Planned::New => "new",
            Planned::Replace => "replace",
            Planned::Compare => "compare",
            Planned::Delete => "delete",
        }
    }
}

/// What a sender knows at the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// What was asked for.
    pub level: Level,
    /// Files in place, proved.
    pub files: u64,
    /// Of these, those whose content was there before and was compared.
    pub kept: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Directories, links and other objects in place.
    pub others: u64,
    /// Bytes of content that were sent.
    pub bytes_sent: u64,
    /// Bytes that were not sent because an earlier transfer had proved them.
    pub bytes_resumed: u64,
    /// Bytes that were not sent because they were in the file that was there.
    pub bytes_reused: u64,
    /// Pages that were read back different and sent again.
    pub pages_resent: u64,
    /// Files that were right when they got into place, read wrong later, and were sent again.
    pub files_resent: u64,
    /// Files that were proved at level `medium`, of this transfer or an earlier one.
    pub settled: u64,
    /// Files that were proved at level `device`, and wait for `medium` until more was written.
    pub pending: u64,
    /// Objects that the destination had and the source does not, where they were looked for.
    pub extra: u64,
    /// Of these, those that were deleted.
    pub deleted: u64,
    /// What would be done, in a dry run; nothing else was.
    pub plan: Vec<(TreePath, Planned)>,
    /// How many steps there would be beyond these.
    pub plan_more: u64,
    /// What is not as it should be.
    pub problems: Vec<Problem>,
    /// How many there were beyond these.
    pub problems_more: u64,
}

impl Report {
    pub(crate) fn new(level: Level) -> Report {
        Report {
            level,
            files: 0,
            kept: 0,
            bytes: 0,
            others: 0,
            bytes_sent: 0,
            bytes_resumed: 0,
            bytes_reused: 0,
            pages_resent: 0,
            files_resent: 0,
            settled: 0,
            pending: 0,
            extra: 0,
            deleted: 0,
            plan: Vec::new(),
            plan_more: 0,
            problems: Vec::new(),
            problems_more: 0,
        }
    }

    pub(crate) fn plan(&mut self, path: TreePath, planned: Planned) {
        if self.plan.len() < PLAN_MAX {
            self.plan.push((path, planned));
        } else {
            self.plan_more += 1;
        }
    }

    pub(crate) fn problem(&mut self, problem: Problem) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        } else {
            self.problems_more += 1;
        }
    }

    pub(crate) fn add(&mut self, placed: Placed) {
        self.files += placed.files;
        self.kept += placed.kept;
        self.bytes += placed.bytes;
        self.others += placed.others;
        self.pages_resent += placed.pages_resent;
        self.settled += placed.settled;
        self.problems_more += placed.problems_more;
        for problem in placed.problems {
            self.problem(problem);
        }
    }

    /// What was proved of every file in place by now.
    pub fn proved(&self) -> Level {
        match self.pending {
            0 => self.level,
            _ => self.level.before_place(),
        }
    }

    /// Whether all of the source is in place, as it is there.
    pub fn is_whole(&self) -> bool {
        self.problems.is_empty() && self.problems_more == 0
    }
}

/// How far a sender is, for people who wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Progress {
    /// Bytes of content sent.
    pub bytes_sent: u64,
    /// Bytes of files that are proved and in place.
    pub bytes_proved: u64,
    /// Files that are proved and in place.
    pub files: u64,
}
