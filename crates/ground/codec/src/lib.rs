//! Self-verifying bytes: object headers, record frames, page checksums.
//!
//! # Promise
//! Bytes that this crate opens are the bytes that it once sealed, under the same identity: a bit
//! flip, a torn or misplaced write, a stale block or a block of another set is reported as a
//! [`Corruption`] that says where, what was expected and what was found. Decoders take any bytes
//! and never panic.
//!
//! # What it rests on
//! CRC-32C (Castagnoli polynomial, RFC 3720 appendix B.4) computed by `crc-fast`; it detects
//! every burst up to 32 bits, and lets one other random change in 2^32 pass. It does not defend against a
//! person who forges bytes. No I/O, no clock, no unsafe code.
//!
//! # Invariants
//! - header bytes = [`OBJECT_HEADER_BYTES`] = 64; frame header bytes = [`FRAME_HEADER_BYTES`] = 32
//! - payload length of a frame <= [`FRAME_PAYLOAD_MAX`] = 1 MiB
//! - bytes that a page checksum covers <= [`PAGE_BYTES`] = 4096
//! - reserved bytes = 0
//!
//! # On disk
//! `docs/formats/object.md` (headers, page checksums) and `docs/formats/log.md` (frames).
//!
//! # How it is tested
//! Golden bytes, a differential test against the `crc32c` crate, properties (round trip; each
//! flipped bit is found), a test that holds the documented byte map against the structs, and
//! fuzz targets whose corpus a plain `cargo test` replays.
//!
//! ```
//! # use holdfast_codec as codec;
//! use codec::{Identity, open_object, seal_object};
//! let identity = Identity { set: *b"a set's 16 bytes", object: 7, generation: 1 };
//! let mut bytes = seal_object(codec::kind::EXAMPLE, 1, &identity, b"state");
//! let object = open_object(&bytes, codec::kind::EXAMPLE, Some(&identity))?;
//! assert_eq!(object.payload, b"state");
//! bytes[70 - 4] ^= 1;
//! assert!(open_object(&bytes, codec::kind::EXAMPLE, None).is_err());
//! # Ok::<(), codec::Corruption>(())
//! ```

mod checksum;
mod corruption;
mod frame;
mod inspect;
pub mod kind;
mod object;
mod page;

pub use checksum::{Checksum, crc32c};
pub use corruption::Corruption;
pub use frame::{
    FRAME_ALIGNMENT, FRAME_HEADER_BYTES, FRAME_MAGIC, FRAME_PAYLOAD_MAX, Frame, FrameHeader,
    FrameKey, frame_bytes,
};
pub use inspect::{Field, inspect, text};
pub use object::{
    FORMAT_VERSION, Identity, OBJECT_HEADER_BYTES, OBJECT_MAGIC, Object, object_header,
    object_kind, open_object, seal_object, split_object,
};
pub use page::{PAGE_BYTES, check_page, page_sum};
