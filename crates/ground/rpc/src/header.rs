//! The header of a frame: the 40 bytes of `docs/formats/rpc.md`.

use codec::{Checksum, Corruption, crc32c};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First four bytes of a frame.
pub(crate) const MAGIC: [u8; 4] = *b"HRPC";

/// Bytes of a frame's header; the body follows at once, then the bulk bytes.
pub const HEADER_BYTES: usize = 40;

/// Longest body in bytes.
pub const BODY_MAX: usize = 256 << 10;

/// Most bulk bytes of a frame.
pub const BULK_MAX: usize = 1 << 20;

/// Which side of a connection: it is covered by the checksum of each header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Who connected; its streams have odd numbers.
    Client,
    /// Who was connected to; its streams have even numbers.
    Server,
}

impl Role {
    /// The other side.
    #[must_use]
    pub fn other(self) -> Role {
        match self {
            Role::Client => Role::Server,
            Role::Server => Role::Client,
        }
    }

    fn mark(self) -> [u8; 1] {
        match self {
            Role::Client => *b"C",
            Role::Server => *b"S",
        }
    }
}

/// What a frame is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub(crate) enum Kind {
    /// The first frame of each side.
    Hello = 1,
    /// The first message of a new stream.
    Open = 2,
    /// A message.
    Message = 3,
    /// The sender sends no more messages on this stream.
    Finish = 4,
    /// Both directions of this stream have ended.
    Reset = 5,
    /// The receiver takes so many bytes more.
    Credit = 6,
    /// The sender goes, and says why.
    Refuse = 7,
}

impl Kind {
    fn of(number: u16) -> Option<Kind> {
        [
            Kind::Hello,
            Kind::Open,
            Kind::Message,
            Kind::Finish,
            Kind::Reset,
            Kind::Credit,
            Kind::Refuse,
        ]
        .into_iter()
        .find(|kind| *kind as u16 == number)
    }
}

/// The fields of a header that verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// What the frame is for.
    pub(crate) kind: Kind,
    /// The stream; 0 for the connection.
    pub(crate) stream: u32,
    /// Its place among the frames of its direction.
    pub(crate) sequence: u64,
    /// Length of the body, at most [`BODY_MAX`].
    pub(crate) body_bytes: usize,
    /// Length of the bulk bytes, at most [`BULK_MAX`].
    pub(crate) bulk_bytes: usize,
    /// CRC-32C of the body.
    pub(crate) body_crc: u32,
    /// CRC-32C of the bulk bytes.
    pub(crate) bulk_crc: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 4],
    kind: U16,
    flags: U16,
    stream: U32,
    body_bytes: U32,
    sequence: U64,
    bulk_bytes: U32,
    body_crc: U32,
    bulk_crc: U32,
    header_crc: U32,
}

const _: () = assert!(size_of::<RawHeader>() == HEADER_BYTES);

/// The header of a frame that `from` sends.
///
/// # Panics
/// Where body or bulk are longer than a frame takes.
pub(crate) fn seal(
    from: Role,
    kind: Kind,
    stream: u32,
    sequence: u64,
    body: &[u8],
    bulk: &[u8],
) -> [u8; HEADER_BYTES] {
    assert!(body.len() <= BODY_MAX, "a body has at most 256 KiB");
    assert!(bulk.len() <= BULK_MAX, "a frame has at most 1 MiB of bulk");
    let mut raw = RawHeader {
        magic: MAGIC,
        kind: U16::new(kind as u16),
        flags: U16::ZERO,
        stream: U32::new(stream),
        body_bytes: U32::new(body.len() as u32),
        sequence: U64::new(sequence),
        bulk_bytes: U32::new(bulk.len() as u32),
        body_crc: U32::new(crc32c(body)),
        bulk_crc: U32::new(crc32c(bulk)),
        header_crc: U32::ZERO,
    };
    raw.header_crc = U32::new(raw.checksum(from));
    zerocopy::transmute!(raw)
}

/// Verifies the header at the start of `bytes`, of a frame that `from` sent.
///
/// # Errors
/// The first thing that does not fit; the offset counts from the start of `bytes`.
pub(crate) fn open(from: Role, bytes: &[u8]) -> Result<Header, Corruption> {
    let (raw, _) = RawHeader::ref_from_prefix(bytes).map_err(|_| Corruption {
        what: "bytes of a frame header",
        offset: 0,
        expected: HEADER_BYTES as u64,
        found: bytes.len() as u64,
    })?;
    let magic = u64::from(u32::from_le_bytes(raw.magic));
    expect("magic", 0, u32::from_le_bytes(MAGIC).into(), magic)?;
    let sum = u64::from(raw.checksum(from));
    expect("header checksum", 36, sum, raw.header_crc.get().into())?;
    expect("flags", 6, 0, raw.flags.get().into())?;
    let at_most = |what, offset, most: usize, found: u32| {
        let length = found as usize;
        if length <= most {
            return Ok(length);
        }
        Err(Corruption {
            what,
            offset,
            expected: most as u64,
            found: found.into(),
        })
    };
    let kind = Kind::of(raw.kind.get()).ok_or(Corruption {
        what: "kind of frame",
        offset: 4,
        expected: Kind::Refuse as u64,
        found: raw.kind.get().into(),
    })?;
    Ok(Header {
        kind,
        stream: raw.stream.get(),
        sequence: raw.sequence.get(),
        body_bytes: at_most("body length", 12, BODY_MAX, raw.body_bytes.get())?,
        bulk_bytes: at_most("bulk length", 24, BULK_MAX, raw.bulk_bytes.get())?,
        body_crc: raw.body_crc.get(),
        bulk_crc: raw.bulk_crc.get(),
    })
}

impl RawHeader {
    fn checksum(&self, from: Role) -> u32 {
        let mut raw = self.clone();
        raw.header_crc = U32::ZERO;
        Checksum::new()
            .with(&from.mark())
            .with(raw.as_bytes())
            .finish()
    }
}

pub(crate) fn expect(
    what: &'static str,
    offset: u64,
    expected: u64,
    found: u64,
) -> Result<(), Corruption> {
    if expected == found {
        return Ok(());
    }
    Err(Corruption {
        what,
        offset,
        expected,
        found,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        let bytes = seal(Role::Client, Kind::Message, 7, 3, b"body", b"bulk bytes");
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "48525043030000000700000004000000030000000000000\
             00a00000050c93f26e65f30e21b2d0881"
        );
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let bytes = seal(Role::Server, Kind::Open, 2, 9, b"b", &[1; 5000]);
        for bit in 0..HEADER_BYTES * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(open(Role::Server, &bad).is_err(), "bit {bit}");
        }
        assert!(open(Role::Client, &bytes).is_err(), "sent back");
    }

    #[test]
    fn the_page_of_the_format_says_what_the_struct_is() {
        let page = include_str!("../../../../docs/formats/rpc.md");
        let rows = page.lines().filter_map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [offset, bytes, name, _] = cells[..] else {
                return None;
            };
            Some((offset.parse().ok()?, bytes.parse().ok()?, name.to_owned()))
        });
        let rows: Vec<(usize, usize, String)> = rows.collect();
        let of = |name: &str| {
            let row = rows.iter().find(|row| row.2 == name).expect("a row");
            (row.0, row.1)
        };
        let fields = [
            ("magic", std::mem::offset_of!(RawHeader, magic), 4),
            ("kind", std::mem::offset_of!(RawHeader, kind), 2),
            ("flags", std::mem::offset_of!(RawHeader, flags), 2),
            ("stream", std::mem::offset_of!(RawHeader, stream), 4),
            ("body_bytes", std::mem::offset_of!(RawHeader, body_bytes), 4),
            ("sequence", std::mem::offset_of!(RawHeader, sequence), 8),
            ("bulk_bytes", std::mem::offset_of!(RawHeader, bulk_bytes), 4),
            ("body_crc", std::mem::offset_of!(RawHeader, body_crc), 4),
            ("bulk_crc", std::mem::offset_of!(RawHeader, bulk_crc), 4),
            ("header_crc", std::mem::offset_of!(RawHeader, header_crc), 4),
        ];
        for (name, offset, bytes) in fields {
            assert_eq!(of(name), (offset, bytes), "{name}");
        }
        assert_eq!(rows.len(), fields.len());
    }
}
