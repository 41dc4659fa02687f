//! Kinds of sealed objects. A number is never used for a second purpose; the table in
//! `docs/formats/object.md` names each with the format that its payload follows.

/// Never on a disk: for examples and tests.
pub const EXAMPLE: u16 = 0;
/// First block of a log segment (`docs/formats/log.md`).
pub const LOG_SEGMENT: u16 = 1;
/// The header of a store (`docs/formats/store-header.md`).
pub const STORE_HEADER: u16 = 2;
/// The header of an object of file metadata (`docs/formats/filemeta.md`).
pub const METADATA_OBJECT: u16 = 3;
/// Who a store of file metadata is (`docs/formats/filemeta.md`).
pub const METADATA_STORE: u16 = 4;
/// The header of a shard of a stripe (`docs/formats/shard.md`).
pub const SHARD: u16 = 5;
/// The header of a segment of differentials (`docs/formats/differential.md`).
pub const DIFFERENTIAL: u16 = 6;
/// The header of a flight in a volume's log (`docs/formats/volume.md`).
pub const VOLUME_FLIGHT: u16 = 7;
/// What the blocks of a volume's segment are (`docs/formats/volume.md`).
pub const VOLUME_TABLE: u16 = 8;
/// The header of a volume's checkpoint (`docs/formats/volume.md`).
pub const VOLUME_CHECKPOINT: u16 = 9;
/// A piece of a volume's checkpoint (`docs/formats/volume.md`).
pub const VOLUME_SHEET: u16 = 10;
/// Which volume a disk belongs to (`docs/formats/volume.md`).
pub const VOLUME: u16 = 11;
/// A page of a volume's inodes (`docs/formats/volume.md`).
pub const VOLUME_INODES: u16 = 12;
/// A page of a directory on a volume (`docs/formats/volume.md`).
pub const VOLUME_DIRECTORY: u16 = 13;
/// Extended attributes of a file on a volume (`docs/formats/volume.md`).
pub const VOLUME_ATTRIBUTES: u16 = 14;
/// The header of a trace of a disk (`docs/formats/trace.md`).
pub const TRACE: u16 = 15;
/// What is known of a file of a transfer that is not in place yet
/// (`docs/formats/transfer-note.md`).
pub const TRANSFER_NOTE: u16 = 20;

/// First block of a segment file of a validity-tracked log (`docs/formats/vlog.md`).
pub const VLOG_SEGMENT: u16 = 16;

/// What belongs to a validity-tracked log (`docs/formats/vlog.md`).
pub const VLOG_MANIFEST: u16 = 17;

/// Which records of a validity-tracked log are live (`docs/formats/vlog.md`).
pub const VLOG_VALIDITY: u16 = 18;

/// Which directory of which validity-tracked log it is (`docs/formats/vlog.md`).
pub const VLOG_DIRECTORY: u16 = 19;

/// The name of a kind, for people.
pub fn name(kind: u16) -> &'static str {
    match kind {
        EXAMPLE => "example",
        LOG_SEGMENT => "log segment",
        STORE_HEADER => "store header",
        METADATA_OBJECT => "metadata object",
        METADATA_STORE => "metadata store",
        SHARD => "shard",
        DIFFERENTIAL => "segment of differentials",
        VOLUME => "volume",
        VOLUME_FLIGHT => "volume flight",
        VOLUME_TABLE => "volume segment table",
        VOLUME_CHECKPOINT => "volume checkpoint",
        VOLUME_SHEET => "volume checkpoint sheet",
        VOLUME_INODES => "page of a volume's inodes",
        VOLUME_DIRECTORY => "page of a volume's directory",
        VOLUME_ATTRIBUTES => "extended attributes on a volume",
        TRACE => "trace of a disk",
        VLOG_SEGMENT => "segment of a validity-tracked log",
        VLOG_MANIFEST => "manifest of a validity-tracked log",
        VLOG_VALIDITY => "validity of a validity-tracked log",
        VLOG_DIRECTORY => "directory of a validity-tracked log",
        TRANSFER_NOTE => "note of a transfer",
        _ => "unknown here",
    }
}
