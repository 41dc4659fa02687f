//! The label that every object of a set carries in the extended attribute
//! `trusted.holdfast` on each of its copies. Layout: docs/formats/label.md.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Name of the extended attribute.
pub const XATTR_NAME: &str = "trusted.holdfast";

/// The number of an object in its set, never used again: also its inode number. The upper
/// 24 bits are the set's mount count when it was made, the lower 40 a counter, so a later
/// object has a larger id.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
pub struct ObjectId(pub u64);

impl ObjectId {
    /// The root directory.
    pub const ROOT: ObjectId = ObjectId(1);
}

/// A store's place in its set, 0 to 63.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
pub struct StoreIndex(pub u8);

/// A set of stores.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, Default, serde::Serialize, serde::Deserialize,
)]
pub struct StoreMask(pub u64);

impl StoreMask {
    /// The first `count` stores.
    pub fn first(count: usize) -> StoreMask {
        assert!(count <= 64, "a set has at most 64 stores");
        StoreMask(if count == 64 {
            u64::MAX
        } else {
            (1 << count) - 1
        })
    }
    /// This store alone.
    pub fn only(store: StoreIndex) -> StoreMask {
        StoreMask(1 << store.0)
    }
    /// Whether `store` is in.
    pub fn has(self, store: StoreIndex) -> bool {
        self.0 & (1 << store.0) != 0
    }
    /// With `store`.
    #[must_use]
    pub fn with(self, store: StoreIndex) -> StoreMask {
        StoreMask(self.0 | 1 << store.0)
    }
    /// With all of `other`.
    #[must_use]
    pub fn with_all(self, other: StoreMask) -> StoreMask {
        StoreMask(self.0 | other.0)
    }
    /// Without `store`.
    #[must_use]
    pub fn without(self, store: StoreIndex) -> StoreMask {
        StoreMask(self.0 & !(1 << store.0))
    }
    /// What is in both.
    #[must_use]
    pub fn and(self, other: StoreMask) -> StoreMask {
        StoreMask(self.0 & other.0)
    }
    /// What is here and not in `other`.
    #[must_use]
    pub fn minus(self, other: StoreMask) -> StoreMask {
        StoreMask(self.0 & !other.0)
    }
    /// How many.
    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }
    /// Whether none is in.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// The stores, lowest first.
    pub fn iter(self) -> impl Iterator<Item = StoreIndex> {
        (0..64u8).map(StoreIndex).filter(move |s| self.has(*s))
    }
}

/// What the label says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label {
    /// The object.
    pub id: ObjectId,
    /// The store whose copy decides where copies differ after a crash. For directories, which
    /// are on every store, the value has no meaning.
    pub home: StoreIndex,
    /// The stores that hold a copy. For directories every store holds one.
    pub copies: StoreMask,
    /// First eight bytes of the set's id, so that an object of another set is not taken for ours.
    pub set: u64,
}

/// Bytes of an encoded label.
pub const LABEL_BYTES: usize = 32;

const VERSION: u8 = 1;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawLabel {
    version: u8,
    home: u8,
    reserved: [u8; 2],
    checksum: U32,
    id: U64,
    copies: U64,
    set: U64,
}

const _: () = assert!(size_of::<RawLabel>() == LABEL_BYTES);

impl Label {
    /// The bytes of the extended attribute.
    pub fn encode(&self) -> [u8; LABEL_BYTES] {
        let mut raw = RawLabel {
            version: VERSION,
            home: self.home.0,
            reserved: [0; 2],
            checksum: U32::ZERO,
            id: U64::new(self.id.0),
            copies: U64::new(self.copies.0),
            set: U64::new(self.set),
        };
        raw.checksum = U32::new(codec::crc32c(raw.as_bytes()));
        zerocopy::transmute!(raw)
    }

    /// Reads a label; `None` where the bytes are not a whole, valid label.
    pub fn decode(bytes: &[u8]) -> Option<Label> {
        let mut raw = RawLabel::read_from_bytes(bytes).ok()?;
        let expected = raw.checksum.get();
        raw.checksum = U32::ZERO;
        let valid = raw.version == VERSION
            && raw.home < 64
            && raw.reserved == [0; 2]
            && raw.id.get() != 0
            && codec::crc32c(raw.as_bytes()) == expected;
        valid.then(|| Label {
            id: ObjectId(raw.id.get()),
            home: StoreIndex(raw.home),
            copies: StoreMask(raw.copies.get()),
            set: raw.set.get(),
        })
    }
}

impl Label {
    /// The fields as lines for people.
    pub fn fields(&self) -> Vec<codec::Field> {
        let copies: Vec<String> = self.copies.iter().map(|s| s.0.to_string()).collect();
        let field = |name: &str, value| (name.to_owned(), value);
        vec![
            field("object", self.id.0.to_string()),
            field("home store", self.home.0.to_string()),
            field("copies on stores", copies.join(", ")),
            field("set", format!("{:016x}...", self.set)),
        ]
    }
}
