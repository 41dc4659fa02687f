//! The header of a store: who it is, and what it knows of its set's membership.
//! Layout: docs/formats/store-header.md.

use crate::label::{StoreIndex, StoreMask};
use codec::{Identity, open_object, seal_object};
use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Name of the file in a store's system directory.
pub const FILE_NAME: &str = "store";

/// `kind` of the sealed object.
pub const OBJECT_KIND: u16 = codec::kind::STORE_HEADER;

const VERSION: u16 = 1;

/// Membership changes that a header remembers.
pub const HISTORY: usize = 64;

/// The id of a set, random.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SetId(pub u128);

impl SetId {
    /// What labels carry of it: its first eight bytes.
    pub fn short(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

/// The id of a store, random.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StoreId(pub u128);

/// One membership: its generation and a random number that tells it from another membership of
/// the same generation that a split set may have formed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tenure {
    /// Counts membership changes.
    pub generation: u64,
    /// Random.
    pub epoch: u64,
}

/// When a store that is not a member was last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Departure {
    /// The last generation that it was a member of; 0 where it was never one or nothing is known,
    /// so that its whole content is to be compared.
    pub generation: u64,
    /// The mount count at that time.
    pub mount_count: u64,
    /// Objects with this id or a later one may have changed since.
    pub mark: u64,
}

/// A store's header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The set.
    pub set: SetId,
    /// This store.
    pub store: StoreId,
    /// Its place.
    pub index: StoreIndex,
    /// Copies of each file.
    pub copies: u8,
    /// When the set was made, seconds since the epoch.
    pub created_s: i64,
    /// Starts of the set; the upper 24 bits of every id given out since the last one.
    pub mount_count: u64,
    /// Starts up to this one that were interrupted before every member had its header: nothing
    /// was changed in them.
    pub pending_starts: u32,
    /// The stores that hold every copy that they should, at the newest tenure.
    pub members: StoreMask,
    /// Newest first, at least one, at most [`HISTORY`].
    pub history: Vec<Tenure>,
    /// Every store of the set by place, with the departure of those that are not members.
    pub stores: Vec<(StoreId, Departure)>,
}

/// Why bytes are not a header.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The object around it is damaged.
    #[error("{0}")]
    Corrupt(#[from] codec::Corruption),
    /// Written by a later version.
    #[error("the store header has version {0}, this program reads version {VERSION}")]
    Version(u16),
    /// The sealed object says that it belongs to another set, place or generation.
    #[error("the store header is sealed for another set, place or generation than it names")]
    Identity,
    /// A field is out of its range.
    #[error("the field {0} of the store header is out of range")]
    Field(&'static str),
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHead {
    set: [u8; 16],
    store: [u8; 16],
    index: u8,
    copies: u8,
    stores: u8,
    history: u8,
    pending_starts: U32,
    created_s: I64,
    mount_count: U64,
    members: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawTenure {
    generation: U64,
    epoch: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawStore {
    id: [u8; 16],
    generation: U64,
    mount_count: U64,
    mark: U64,
}

const _: () = assert!(size_of::<RawHead>() == 64);
const _: () = assert!(size_of::<RawTenure>() == 16);
const _: () = assert!(size_of::<RawStore>() == 40);

impl Header {
    /// The last start in which every member had its header before anything was changed.
    pub fn last_served(&self) -> u64 {
        self.mount_count
            .saturating_sub(u64::from(self.pending_starts))
    }

    /// The newest tenure.
    pub fn tenure(&self) -> Tenure {
        *self.history.first().expect("a header has a tenure")
    }

    /// Starts a new tenure with these members.
    pub fn advance(&mut self, members: StoreMask, epoch: u64) {
        let generation = self.tenure().generation + 1;
        self.history.insert(0, Tenure { generation, epoch });
        self.history.truncate(HISTORY);
        self.members = members;
    }

    /// Whether `other` is a tenure that this header's set went through.
    pub fn descends_from(&self, other: Tenure) -> bool {
        self.history.contains(&other)
    }

    /// The same header as store `index` keeps it.
    #[must_use]
    pub fn for_store(&self, index: StoreIndex) -> Header {
        let mut header = self.clone();
        header.index = index;
        header.store = self.stores[usize::from(index.0)].0;
        header
    }

    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.history.len() <= HISTORY && self.stores.len() <= 64);
        let head = RawHead {
            set: self.set.0.to_le_bytes(),
            store: self.store.0.to_le_bytes(),
            index: self.index.0,
            copies: self.copies,
            stores: self.stores.len() as u8,
            history: self.history.len() as u8,
            pending_starts: U32::new(self.pending_starts),
            created_s: I64::new(self.created_s),
            mount_count: U64::new(self.mount_count),
            members: U64::new(self.members.0),
        };
        let mut payload = head.as_bytes().to_vec();
        for tenure in &self.history {
            let raw = RawTenure {
                generation: U64::new(tenure.generation),
                epoch: U64::new(tenure.epoch),
            };
            payload.extend_from_slice(raw.as_bytes());
        }
        for (id, departure) in &self.stores {
            let raw = RawStore {
                id: id.0.to_le_bytes(),
                generation: U64::new(departure.generation),
                mount_count: U64::new(departure.mount_count),
                mark: U64::new(departure.mark),
            };
            payload.extend_from_slice(raw.as_bytes());
        }
        seal_object(OBJECT_KIND, VERSION, &self.identity(), &payload)
    }

    /// The identity that the object around the header is sealed with.
    fn identity(&self) -> Identity {
        Identity {
            set: self.set.0.to_le_bytes(),
            object: u64::from(self.index.0),
            generation: self.tenure().generation,
        }
    }

    /// Reads a header.
    pub fn decode(bytes: &[u8]) -> Result<Header, HeaderError> {
        let object = open_object(bytes, OBJECT_KIND, None)?;
        if object.version != VERSION {
            return Err(HeaderError::Version(object.version));
        }
        let short = HeaderError::Field("length");
        let (head, rest) = RawHead::ref_from_prefix(object.payload).map_err(|_| short.clone())?;
        let (count, history) = (usize::from(head.stores), usize::from(head.history));
        if count == 0 || count > 64 || usize::from(head.index) >= count {
            return Err(HeaderError::Field("stores"));
        }
        if history == 0 || history > HISTORY {
            return Err(HeaderError::Field("history"));
        }
        if head.copies == 0 || usize::from(head.copies) > count {
            return Err(HeaderError::Field("copies"));
        }
        let (tenures, rest) =
            <[RawTenure]>::ref_from_prefix_with_elems(rest, history).map_err(|_| short.clone())?;
        let stores =
            <[RawStore]>::ref_from_bytes_with_elems(rest, count).map_err(|_| short.clone())?;
        let members = StoreMask(head.members.get());
        if !members.minus(StoreMask::first(count)).is_empty() || members.is_empty() {
            return Err(HeaderError::Field("members"));
        }
        let header = Header {
            set: SetId(u128::from_le_bytes(head.set)),
            store: StoreId(u128::from_le_bytes(head.store)),
            index: StoreIndex(head.index),
            copies: head.copies,
            created_s: head.created_s.get(),
            mount_count: head.mount_count.get(),
            pending_starts: head.pending_starts.get(),
            members,
            history: tenures
                .iter()
                .map(|t| Tenure {
                    generation: t.generation.get(),
                    epoch: t.epoch.get(),
                })
                .collect(),
            stores: stores
                .iter()
                .map(|s| {
                    let departure = Departure {
                        generation: s.generation.get(),
                        mount_count: s.mount_count.get(),
                        mark: s.mark.get(),
                    };
                    (StoreId(u128::from_le_bytes(s.id)), departure)
                })
                .collect(),
        };
        if header.stores[usize::from(head.index)].0 != header.store {
            return Err(HeaderError::Field("store"));
        }
        if header.identity() != object.identity {
            return Err(HeaderError::Identity);
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests;
