//! The bytes of the protocol. All integers are big-endian.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `NBDMAGIC`.
pub const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`: before the options of both sides.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Before the answer to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Before a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Before a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Before a chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Flags of the handshake: fixed newstyle, no zeros behind the export's data.
pub const FIXED_NEWSTYLE: u16 = 1;
/// As the server's; the client's have the same bits.
pub const NO_ZEROES: u16 = 2;

/// Options.
pub mod option {
    /// Chooses a device and ends the negotiation, without a word where there is none.
    pub const EXPORT_NAME: u32 = 1;
    /// Ends the connection.
    pub const ABORT: u32 = 2;
    /// Asks for the names of devices.
    pub const LIST: u32 = 3;
    /// Asks about a device.
    pub const INFO: u32 = 6;
    /// Chooses a device.
    pub const GO: u32 = 7;
    /// Asks for structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Asks which contexts of metadata there are.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Chooses contexts.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Kinds of answers to options.
pub mod answer {
    /// Done.
    pub const ACK: u32 = 1;
    /// The name of a device.
    pub const SERVER: u32 = 2;
    /// Something about a device.
    pub const INFO: u32 = 3;
    /// A context of metadata.
    pub const META_CONTEXT: u32 = 4;
    /// The option is not known.
    pub const ERR_UNSUPPORTED: u32 = 1 << 31 | 1;
    /// The option is malformed.
    pub const ERR_INVALID: u32 = 1 << 31 | 3;
    /// There is no such device.
    pub const ERR_UNKNOWN: u32 = 1 << 31 | 6;
    /// The option is too long.
    pub const ERR_TOO_BIG: u32 = 1 << 31 | 9;
}

/// What a device can do: flags, flush, FUA, trim, write zeroes, whole replies, several connections.
pub const DEVICE_FLAGS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8;

/// Commands of a request.
pub mod command {
    /// Reads.
    pub const READ: u16 = 0;
    /// Writes.
    pub const WRITE: u16 = 1;
    /// Leaves.
    pub const DISCONNECT: u16 = 2;
    /// Makes what was answered durable.
    pub const FLUSH: u16 = 3;
    /// Gives room back.
    pub const TRIM: u16 = 4;
    /// Makes a range zeros.
    pub const WRITE_ZEROES: u16 = 6;
    /// Asks which parts of a range have content.
    pub const BLOCK_STATUS: u16 = 7;
    /// Flag: durable before the answer.
    pub const FUA: u16 = 1;
    /// Flag of write zeroes: with room of its own.
    pub const NO_HOLE: u16 = 2;
    /// Flag of block status: one extent.
    pub const REQ_ONE: u16 = 8;
}

/// Chunks of a structured reply.
pub mod chunk {
    /// Flag: the last one.
    pub const DONE: u16 = 1;
    /// Nothing but the end.
    pub const NONE: u16 = 0;
    /// An offset and data.
    pub const OFFSET_DATA: u16 = 1;
    /// Extents with their state.
    pub const BLOCK_STATUS: u16 = 5;
    /// An error.
    pub const ERROR: u16 = 1 << 15 | 1;
}

/// Errors of requests.
pub mod error {
    /// Not allowed.
    pub const EPERM: u32 = 1;
    /// The device failed, or the content is lost.
    pub const EIO: u32 = 5;
    /// The request is wrong.
    pub const EINVAL: u32 = 22;
    /// No room.
    pub const ENOSPC: u32 = 28;
}

/// A request, without its magic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Flags of the command.
    pub flags: u16,
    /// The command.
    pub command: u16,
    /// What the answer carries, so that the client knows it.
    pub cookie: u64,
    /// In bytes.
    pub offset: u64,
    /// In bytes.
    pub length: u32,
}

/// Bytes of a request without what it writes.
pub const REQUEST_BYTES: usize = 28;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRequest {
    magic: U32,
    flags: U16,
    command: U16,
    cookie: U64,
    offset: U64,
    length: U32,
}

const _: () = assert!(size_of::<RawRequest>() == REQUEST_BYTES);

impl Request {
    /// Reads one; `None` where it does not begin with the magic.
    pub fn decode(bytes: &[u8; REQUEST_BYTES]) -> Option<Request> {
        let raw: &RawRequest = zerocopy::transmute_ref!(bytes);
        (raw.magic.get() == REQUEST_MAGIC).then(|| Request {
            flags: raw.flags.get(),
            command: raw.command.get(),
            cookie: raw.cookie.get(),
            offset: raw.offset.get(),
            length: raw.length.get(),
        })
    }

    /// As a client sends it.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        zerocopy::transmute!(RawRequest {
            magic: U32::new(REQUEST_MAGIC),
            flags: U16::new(self.flags),
            command: U16::new(self.command),
            cookie: U64::new(self.cookie),
            offset: U64::new(self.offset),
            length: U32::new(self.length),
        })
    }
}

/// What the options GO and INFO ask: the name of a device (and what else to say of it, which is
/// always said). `None` where it is malformed.
pub fn go_name(data: &[u8]) -> Option<&[u8]> {
    let (length, rest) = U32::ref_from_prefix(data).ok()?;
    let (name, rest) = rest.split_at_checked(length.get() as usize)?;
    let (count, rest) = U16::ref_from_prefix(rest).ok()?;
    (rest.len() == usize::from(count.get()) * 2).then_some(name)
}

/// What the options about contexts ask: the device, and the queries. `None` where it is malformed.
pub fn context_queries(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let take = |data: &'_ [u8]| -> Option<(usize, usize)> {
        let (length, _) = U32::ref_from_prefix(data).ok()?;
        let end = (length.get() as usize).checked_add(4)?;
        (end <= data.len()).then_some((4, end))
    };
    let (from, to) = take(data)?;
    let name = data.get(from..to)?;
    let (count, mut rest) = U32::ref_from_prefix(data.get(to..)?).ok()?;
    let mut queries = Vec::new();
    for _ in 0..count.get() {
        let (from, to) = take(rest)?;
        queries.push(rest.get(from..to)?);
        rest = rest.get(to..)?;
    }
    rest.is_empty().then_some((name, queries))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_is_written() {
        let request = Request {
            flags: command::FUA,
            command: command::WRITE,
            cookie: 0x0102_0304_0506_0708,
            offset: 1 << 40,
            length: 4096,
        };
        let mut bytes = request.encode();
        assert_eq!(Request::decode(&bytes), Some(request));
        assert_eq!(bytes[..8], [0x25, 0x60, 0x95, 0x13, 0, 1, 0, 1]);
        bytes[0] = 0;
        assert_eq!(Request::decode(&bytes), None);
    }

    #[test]
    fn names_and_queries_that_are_cut_are_malformed() {
        let go = b"\0\0\0\x02ab\0\x01\0\x03";
        assert_eq!(go_name(go), Some(&b"ab"[..]));
        let queries = b"\0\0\0\0\0\0\0\x01\0\0\0\x05base:";
        assert_eq!(
            context_queries(queries),
            Some((&b""[..], vec![&b"base:"[..]]))
        );
        for length in 0..go.len() {
            assert_eq!(go_name(&go[..length]), None, "{length}");
        }
        for length in 0..queries.len() {
            assert_eq!(context_queries(&queries[..length]), None, "{length}");
        }
    }
}
