//! Bugs that tests plant, to see that they find them.

use super::Settings;

/// What is wrong with a receiver; only the feature `plant` has it happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    /// Files get their names before they were synced.
    NoSync,
    /// What was written is not read back.
    NoProof,
    /// Notes say that more was proved than was.
    NoteAhead,
    /// What a cut has left is taken as it is.
    HeldBelieved,
    /// What the source does not have goes before the rest is in place.
    EarlyDeletion,
}

impl Settings {
    #[cfg(feature = "plant")]
    pub(super) fn plants(&self, plant: Plant) -> bool {
        self.plant == Some(plant)
    }

    #[cfg(not(feature = "plant"))]
    pub(super) fn plants(&self, _: Plant) -> bool {
        false
    }
}
