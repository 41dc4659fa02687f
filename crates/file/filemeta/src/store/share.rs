//! Shared objects: one content for many owners, counted.

use super::transaction::Transaction;
use crate::header::Header;
use crate::key::{Number, ObjectKey};
use crate::{MetaError, Result};
use codec::{Checksum, crc32c};
use env::handle::Handle;

/// Longest shared content in bytes: it is compared whole each time it is shared.
pub const SHARED_BYTES_MAX: usize = 64 << 10;

/// Bytes of a roster's entry.
pub const ROSTER_ENTRY_BYTES: usize = 32;

/// Longest handle that a roster's entry takes, type byte included.
pub(crate) const ROSTER_HANDLE_MAX: usize = ROSTER_ENTRY_BYTES - 1;

/// Numbers at which a content may be.
const PROBES: u64 = 16;

/// A roster's entry, read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RosterEntry {
    Used(Handle),
    /// The next free one, counted from 1; 0 for none.
    Free(u32),
}

impl RosterEntry {
    pub(crate) fn encode(&self) -> [u8; ROSTER_ENTRY_BYTES] {
        let mut bytes = [0; ROSTER_ENTRY_BYTES];
        match self {
            RosterEntry::Used(handle) => {
                let handle = handle.as_bytes();
                assert!(handle.len() <= ROSTER_HANDLE_MAX, "its length was checked");
                bytes[0] = handle.len() as u8;
                bytes[1..=handle.len()].copy_from_slice(handle);
            }
            RosterEntry::Free(next) => bytes[4..8].copy_from_slice(&next.to_le_bytes()),
        }
        bytes
    }

    /// `None` for bytes that are no entry.
    pub(crate) fn decode(bytes: &[u8; ROSTER_ENTRY_BYTES]) -> Option<RosterEntry> {
        let entry = match bytes[0] {
            0 => RosterEntry::Free(u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]])),
            length => {
                let handle = bytes.get(1..=usize::from(length))?;
                RosterEntry::Used(Handle::from_bytes(handle)?)
            }
        };
        (entry.encode() == *bytes).then_some(entry)
    }
}

/// The first number at which a content is looked for, as docs/formats/filemeta.md says.
pub(crate) fn first_number(content: &[u8]) -> u64 {
    let low = crc32c(content);
    let high = Checksum::new()
        .with(&low.to_le_bytes())
        .with(&(content.len() as u64).to_le_bytes())
        .finish();
    u64::from(high & 0xffff) << 32 | u64::from(low)
}

impl Transaction<'_> {
    /// Adds `owner` to the owners of `content`; gives the object and the owner's place.
    pub(crate) fn enroll(&mut self, owner: &Handle, content: &[u8]) -> Result<(Number, u32)> {
        if content.len() > SHARED_BYTES_MAX {
            return Err(MetaError::TooLong {
                what: "shared metadata",
                found: content.len() as u64,
                max: SHARED_BYTES_MAX as u64,
            });
        }
        if owner.as_bytes().len() > ROSTER_HANDLE_MAX {
            return Err(MetaError::HandleTooLong {
                found: owner.as_bytes().len(),
                max: ROSTER_HANDLE_MAX,
            });
        }
        let (number, shared) = self.find_or_make(content)?;
        let key = ObjectKey::Roster(number);
        let mut roster = self.known_header(&key)?;
        let place = match roster.free.checked_sub(1) {
            Some(place) => {
                let RosterEntry::Free(next) = self.roster_entry(&key, &roster, place)? else {
                    return Err(bad_roster(&key, place));
                };
                roster.free = next;
                self.set_header(&key, &roster);
                place
            }
            None => {
                let place = roster.length / ROSTER_ENTRY_BYTES as u64;
                let length = (place + 1) * ROSTER_ENTRY_BYTES as u64;
                self.resize(&key, &roster, length)?;
                roster.length = length;
                u32::try_from(place).map_err(|_| MetaError::object_too_long(length))?
            }
        };
        let at = u64::from(place) * ROSTER_ENTRY_BYTES as u64;
        let entry = RosterEntry::Used(*owner).encode();
        self.patch(&key, &roster, at, &entry)?;
        let counted = Header {
            references: shared.references.saturating_add(1),
            ..shared
        };
        self.set_header(&ObjectKey::Shared(number), &counted);
        Ok((number, place))
    }

    fn find_or_make(&mut self, content: &[u8]) -> Result<(Number, Header)> {
        let first = first_number(content);
        let mut free = None;
        for probe in 0..PROBES {
            let Some(number) = Number::new((first + probe) & Number::MAX.get()) else {
                continue;
            };
            let key = ObjectKey::Shared(number);
            match self.header(&key) {
                Ok(Some(header)) => {
                    let same = header.length == content.len() as u64
                        && self
                            .content(&key, &header)
                            .is_ok_and(|found| found == content);
                    if same {
                        return Ok((number, header));
                    }
                }
                Ok(None) => free = free.or(Some(number)),
                // What is damaged is not shared any further, and not overwritten either.
                Err(MetaError::Corrupt { .. } | MetaError::OtherStore { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let number = match free {
            Some(number) => number,
            // So many others have this content's numbers: it gets one of its own, unshared.
            None => self.number_of_its_own()?,
        };
        let generation = self.state.take_number()?.get();
        let shared = Header {
            length: content.len() as u64,
            ..Header::new(generation, 0, &[])
        };
        self.create(&ObjectKey::Shared(number), shared.clone(), content)?;
        let generation = self.state.take_number()?.get();
        let roster = ObjectKey::Roster(number);
        self.create(&roster, Header::new(generation, 0, &[]), &[])?;
        Ok((number, shared))
    }

    fn number_of_its_own(&mut self) -> Result<Number> {
        loop {
            let number = self.state.take_number()?;
            if self.header(&ObjectKey::Shared(number))?.is_none() {
                return Ok(number);
            }
        }
    }

    fn roster_entry(
        &mut self,
        key: &ObjectKey,
        roster: &Header,
        place: u32,
    ) -> Result<RosterEntry> {
        let mut bytes = [0; ROSTER_ENTRY_BYTES];
        let at = u64::from(place) * ROSTER_ENTRY_BYTES as u64;
        match self.read(key, roster, at, &mut bytes) {
            Ok(()) => RosterEntry::decode(&bytes).ok_or_else(|| bad_roster(key, place)),
            Err(MetaError::OutOfRange { .. }) => Err(bad_roster(key, place)),
            Err(error) => Err(error),
        }
    }

    /// Who has this place of a shared object's roster.
    pub(crate) fn enrolled(&mut self, number: Number, place: u32) -> Result<Option<Handle>> {
        let key = ObjectKey::Roster(number);
        let roster = self.known_header(&key)?;
        match self.roster_entry(&key, &roster, place)? {
            RosterEntry::Used(handle) => Ok(Some(handle)),
            RosterEntry::Free(_) => Ok(None),
        }
    }

    /// Takes `owner` from the owners of a shared object; the last one takes the object along.
    pub(crate) fn leave(&mut self, owner: &Handle, number: Number, place: u32) -> Result<()> {
        if self.enrolled(number, place)? != Some(*owner) {
            return Err(bad_roster(&ObjectKey::Roster(number), place));
        }
        let key = ObjectKey::Shared(number);
        let shared = self.known_header(&key)?;
        let roster_key = ObjectKey::Roster(number);
        if shared.references <= 1 {
            self.remove(&key);
            self.remove(&roster_key);
            return Ok(());
        }
        let mut roster = self.known_header(&roster_key)?;
        let at = u64::from(place) * ROSTER_ENTRY_BYTES as u64;
        let entry = RosterEntry::Free(roster.free).encode();
        self.patch(&roster_key, &roster, at, &entry)?;
        roster.free = place + 1;
        self.set_header(&roster_key, &roster);
        let counted = Header {
            references: shared.references - 1,
            ..shared
        };
        self.set_header(&key, &counted);
        Ok(())
    }
}

fn bad_roster(key: &ObjectKey, place: u32) -> MetaError {
    MetaError::Corrupt {
        object: key.clone(),
        corruption: codec::Corruption {
            what: "entry of the roster",
            offset: u64::from(place) * ROSTER_ENTRY_BYTES as u64,
            expected: 0,
            found: place.into(),
        },
    }
}
