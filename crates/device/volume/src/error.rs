//! What can go wrong, and what to do about it.

use crate::id::{BlockIndex, Flight, ObjectId, Place, VolumeId};
use codec::Corruption;
use env::errno::{Errno, ErrorKind, fault};

/// Results of this crate.
pub type Result<T> = core::result::Result<T, VolumeError>;

/// Why a call failed. Unless a variant says otherwise nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VolumeError {
    /// The disks are smaller than a volume can be.
    #[error(
        "{bytes} bytes are too few for a volume with segments of {segment_bytes} bytes; take a \
         larger disk or smaller segments"
    )]
    TooSmall {
        /// Bytes of all disks.
        bytes: u64,
        /// Bytes of a segment.
        segment_bytes: u64,
    },
    /// A setting that no volume can have.
    #[error("{what} of {found} is not between {min} and {max}")]
    Setting {
        /// Which.
        what: &'static str,
        /// What was asked for.
        found: u64,
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// There is a volume where a new one was to be made.
    #[error("disk {disk} is part of volume {volume} already")]
    Exists {
        /// Which disk.
        disk: usize,
        /// Its volume.
        volume: VolumeId,
    },
    /// There is no volume on a disk.
    #[error("disk {disk} is not part of a volume: {corruption}")]
    NotAVolume {
        /// Which disk.
        disk: usize,
        /// What is wrong with its first block.
        corruption: Corruption,
    },
    /// The disks are not those of one volume, in their order.
    #[error("disk {disk} is disk {found} of {disks} of volume {volume}: give all disks in order")]
    WrongDisks {
        /// Which disk.
        disk: usize,
        /// Which it is.
        found: u16,
        /// How many the volume has.
        disks: u16,
        /// The volume that it belongs to.
        volume: VolumeId,
    },
    /// Neither copy of the newest checkpoint can be read, and an older one is of no use.
    #[error("checkpoint {number} of the volume is damaged in both copies: {corruption}")]
    CheckpointCorrupt {
        /// Which.
        number: u64,
        /// What is wrong, in its first copy.
        corruption: Corruption,
    },
    /// A flight that was durable is gone: what it wrote is not known.
    #[error(
        "flight {:#x} of the log is damaged, though it was durable; the changes behind it up to \
         flight {:#x} cannot be told apart from older content", flight.0, durable_below.0
    )]
    FlightLost {
        /// The first that is missing.
        flight: Flight,
        /// Flights below were durable.
        durable_below: Flight,
    },
    /// The content of a block is not what was written.
    #[error("block {} of object {object} is lost: {corruption} (place {})", block.0, place.0)]
    Corrupt {
        /// The object.
        object: ObjectId,
        /// The block.
        block: BlockIndex,
        /// Where it lies in the log.
        place: Place,
        /// What is wrong.
        corruption: Corruption,
    },
    /// The content of a block was found damaged before and given up.
    #[error("block {} of object {object} is lost: it was damaged when it was moved", block.0)]
    Lost {
        /// The object.
        object: ObjectId,
        /// The block.
        block: BlockIndex,
    },
    /// Bytes of a directory tree verify as those of a block, and are not what they should be.
    #[error("object {object} of the tree is damaged at byte {offset}: {corruption}")]
    Tree {
        /// The object.
        object: ObjectId,
        /// Where the damaged page begins.
        offset: u64,
        /// What is wrong.
        corruption: Corruption,
    },
    /// There is no directory tree on the volume.
    #[error("the volume has no directory tree; it was made for block devices")]
    NoTree,
    /// A tree was to be made where there are objects already.
    #[error("the volume has objects already: a tree is made on an empty one")]
    NotEmpty,
    /// There is no such object.
    #[error("there is no object {object}")]
    NoObject {
        /// Which.
        object: ObjectId,
    },
    /// A range that is not inside what it has to be in.
    #[error(
        "bytes {offset} to {end} are not inside the {limit} bytes that object {object} may have"
    )]
    OutOfRange {
        /// The object.
        object: ObjectId,
        /// First byte.
        offset: u64,
        /// The byte behind the last.
        end: u64,
        /// Bytes that there are or may be.
        limit: u64,
    },
    /// The volume is full.
    #[error(
        "the volume has no room: {needed} {what} needed, {free} free; remove or discard something"
    )]
    NoSpace {
        /// What there is too little of.
        what: &'static str,
        /// How many.
        needed: u64,
        /// How many there are.
        free: u64,
    },
    /// The volume was opened only for reading.
    #[error("the volume is open for reading only")]
    ReadOnly,
    /// An earlier write or sync failed; what was durable is.
    #[error("the volume stopped after {errno} while {doing}; open it again to recover")]
    Stopped {
        /// What failed.
        doing: &'static str,
        /// With which error.
        errno: Errno,
    },
    /// It was opened 2^24 times.
    #[error("the volume was opened too often: make a new one and copy what is in this")]
    WornOut,
    /// A disk.
    #[error("{doing}: {errno}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The error.
        errno: Errno,
    },
}

impl VolumeError {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            VolumeError::TooSmall { .. }
            | VolumeError::Setting { .. }
            | VolumeError::Exists { .. }
            | VolumeError::NotAVolume { .. }
            | VolumeError::WrongDisks { .. }
            | VolumeError::NoObject { .. }
            | VolumeError::NoTree
            | VolumeError::NotEmpty
            | VolumeError::OutOfRange { .. }
            | VolumeError::WornOut
            | VolumeError::ReadOnly => ErrorKind::Misuse,
            VolumeError::CheckpointCorrupt { .. }
            | VolumeError::FlightLost { .. }
            | VolumeError::Corrupt { .. }
            | VolumeError::Tree { .. }
            | VolumeError::Lost { .. } => ErrorKind::Corrupt,
            VolumeError::NoSpace { .. } => ErrorKind::NoSpace,
            VolumeError::Stopped { .. } => ErrorKind::Fatal,
            VolumeError::Io { errno, .. } => fault(*errno).into(),
        }
    }

    /// Turns an error number into an error that says what was tried.
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(Errno) -> VolumeError {
        move |errno| VolumeError::Io { doing, errno }
    }
}
