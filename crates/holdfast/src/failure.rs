//! The one error type of the binary: what a person reads when a command cannot do its work.

use crate::exit::Exit;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What happened, what is safe, what to do next, and the exit code. It crosses the control
/// socket, and `--json` prints it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// What happened, one sentence without a full stop.
    pub what: String,
    /// What was kept safe, or not touched.
    pub safe: String,
    /// What to do next; lines are separate steps or choices.
    pub next: String,
    /// How the process ends.
    pub exit: Exit,
}

/// A result whose error a person reads.
pub type Outcome<T> = Result<T, Failure>;

/// What most refusals can say of the data.
pub const NOTHING_CHANGED: &str = "nothing was changed";

impl Failure {
    /// A refusal before anything was changed.
    pub fn refuse(exit: Exit, what: impl Into<String>, next: impl Into<String>) -> Failure {
        Failure {
            what: what.into(),
            safe: NOTHING_CHANGED.to_owned(),
            next: next.into(),
            exit,
        }
    }

    /// Something that no command expects, such as an I/O error in passing.
    pub fn unexpected(doing: impl fmt::Display, error: &dyn fmt::Display) -> Failure {
        Failure {
            what: format!("{doing}: {error}"),
            safe: "data that was synced is on its stores".to_owned(),
            next: "if the message does not say enough, run again with HOLDFAST_LOG=debug"
                .to_owned(),
            exit: Exit::Failed,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", self.what)?;
        writeln!(f, "  safe: {}", self.safe)?;
        for (at, line) in self.next.lines().enumerate() {
            let head = if at == 0 { "next:" } else { "     " };
            writeln!(f, "  {head} {line}")?;
        }
        write!(f, "  code: {} ({})", self.exit.number(), self.exit.name())
    }
}

impl std::error::Error for Failure {}
