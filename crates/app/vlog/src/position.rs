//! Names of records: six bytes in memory, eight on disk.

/// Most segments at a time, and most records of a segment: what 24 bits can tell apart.
pub(crate) const ORDINALS_MAX: u32 = 1 << 24;

/// Least number that no segment has: kills on disk have 40 bits for it.
pub(crate) const NUMBER_END: u64 = 1 << 40;

/// Where a record is to be found by the log, for as long as the log is open: six bytes for the
/// database to keep beside the entry. It never changes while the record is live, whatever is
/// compacted. An open gives new ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Position([u8; 6]);

impl Position {
    /// For slot and ordinal below 2^24.
    pub(crate) fn new(slot: u32, ordinal: u32) -> Position {
        let [a, b, c, _] = slot.to_le_bytes();
        let [d, e, f, _] = ordinal.to_le_bytes();
        Position([a, b, c, d, e, f])
    }

    pub(crate) fn slot(self) -> u32 {
        let [a, b, c, ..] = self.0;
        u32::from_le_bytes([a, b, c, 0])
    }

    pub(crate) fn ordinal(self) -> u32 {
        let [.., d, e, f] = self.0;
        u32::from_le_bytes([d, e, f, 0])
    }

    /// The six bytes.
    pub fn to_bytes(self) -> [u8; 6] {
        self.0
    }

    /// The position that [`Position::to_bytes`] gave. Other bytes are refused where they are used,
    /// if they name no live record.
    pub fn from_bytes(bytes: [u8; 6]) -> Position {
        Position(bytes)
    }
}

/// A record's name for ever: number of its first segment, and ordinal there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Name {
    pub(crate) segment: u64,
    pub(crate) ordinal: u32,
}

impl Name {
    /// As a kill has it.
    pub(crate) fn to_u64(self) -> u64 {
        assert!(
            self.segment < NUMBER_END && self.ordinal < ORDINALS_MAX,
            "a name has 40 and 24 bits"
        );
        self.segment << 24 | u64::from(self.ordinal)
    }

    pub(crate) fn from_u64(name: u64) -> Name {
        Name {
            segment: name >> 24,
            ordinal: (name & u64::from(ORDINALS_MAX - 1)) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_names_give_back_what_they_were_made_of() {
        let position = Position::new(0x00ab_cdef, 0x0012_3456);
        assert_eq!(
            (position.slot(), position.ordinal()),
            (0x00ab_cdef, 0x0012_3456)
        );
        assert_eq!(Position::from_bytes(position.to_bytes()), position);
        assert_eq!(size_of::<Position>(), 6);
        let name = Name {
            segment: NUMBER_END - 1,
            ordinal: ORDINALS_MAX - 1,
        };
        assert_eq!(name.to_u64(), u64::MAX);
        assert_eq!(Name::from_u64(name.to_u64()), name);
    }
}
