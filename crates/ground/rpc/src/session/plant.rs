//! Bugs that tests plant, to see that they find them.

use super::Session;

/// What is wrong with a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plant {
    None,
    /// Frames may be missing, or come twice.
    NoSequence,
    /// Bodies and bulk bytes are taken as they come.
    NoPayloadSums,
    /// A peer may send more than its credit.
    NoWindow,
}

impl Session {
    pub(crate) fn planted(mut self, plant: Plant) -> Session {
        self.plant = plant;
        self
    }

    pub(super) fn checks_sequence(&self) -> bool {
        self.plant != Plant::NoSequence
    }

    pub(super) fn checks_payload(&self) -> bool {
        self.plant != Plant::NoPayloadSums
    }

    pub(super) fn checks_window(&self) -> bool {
        self.plant != Plant::NoWindow
    }
}
