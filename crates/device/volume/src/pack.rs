//! Packs: blocks that compress well and share one block of the log, or the rest of a flight's header.

use crate::block::{BLOCK_BYTES, Block};
use crate::corrupt::{equal, wrong};
use crate::id::{BlockIndex, ObjectId};
use codec::Corruption;
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use std::cell::RefCell;
use std::sync::Arc;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a pack before its members.
pub(crate) const HEAD_BYTES: usize = 8;

/// Bytes that a member takes besides its content.
pub(crate) const MEMBER_BYTES: usize = 16;

/// A block that takes more than this compressed is kept as it is.
pub const SQUEEZED_BYTES_MAX: usize = 3800;

/// A block of a pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member<'a> {
    /// The object.
    pub object: ObjectId,
    /// The block of it.
    pub block: BlockIndex,
    /// Its content, compressed: 1 to [`SQUEEZED_BYTES_MAX`] bytes.
    pub squeezed: &'a [u8],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHead {
    members: U16,
    bytes: U16,
    reserved: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawMember {
    object: U64,
    block: U32,
    bytes: U16,
    reserved: U16,
}

const _: () = assert!(size_of::<RawHead>() == HEAD_BYTES);
const _: () = assert!(size_of::<RawMember>() == MEMBER_BYTES);

/// What compressing takes, made once for a thread.
struct Squeezing {
    /// The library asks for room for what does not compress.
    room: Box<[u8; get_maximum_output_size(BLOCK_BYTES)]>,
    table: CompressTable,
}

thread_local! {
    static SQUEEZING: RefCell<Squeezing> = RefCell::new(Squeezing {
        room: Box::new([0; get_maximum_output_size(BLOCK_BYTES)]),
        table: CompressTable::small(),
    });
}

/// The content of a block compressed, where that is worth it.
pub(crate) fn squeeze(block: &Block) -> Option<Arc<[u8]>> {
    SQUEEZING.with_borrow_mut(|Squeezing { room, table }| {
        let length = compress_into_with_table(&block.0, &mut **room, table).ok()?;
        let squeezed = room.get(..length)?;
        (length <= SQUEEZED_BYTES_MAX).then(|| Arc::from(squeezed))
    })
}

impl Member<'_> {
    /// Puts its content into a block.
    ///
    /// # Errors
    /// It is not one block compressed.
    pub fn expand(&self, block: &mut [u8; BLOCK_BYTES]) -> Result<(), Corruption> {
        let bytes = lz4_flex::block::decompress_into(self.squeezed, block).unwrap_or(0);
        equal(
            "bytes of a block of a pack",
            0,
            BLOCK_BYTES as u64,
            bytes as u64,
        )
    }
}

/// The pack of these blocks.
///
/// # Panics
/// A block comes twice, or they do not fit in a block of the log.
pub fn encode(members: &[Member<'_>]) -> Vec<u8> {
    let content: usize = members.iter().map(|member| member.squeezed.len()).sum();
    let bytes = HEAD_BYTES + members.len() * MEMBER_BYTES + content;
    assert!(bytes <= BLOCK_BYTES && !members.is_empty());
    let mut pack = Vec::with_capacity(bytes);
    let head = RawHead {
        members: U16::new(members.len() as u16),
        bytes: U16::new(bytes as u16),
        reserved: U32::ZERO,
    };
    pack.extend_from_slice(head.as_bytes());
    for (at, member) in members.iter().enumerate() {
        let key = |member: &Member<'_>| (member.object, member.block);
        let before = members.iter().take(at);
        // A later group may not be there after a crash, but whoever looks for the block would find it.
        assert!(
            before.into_iter().all(|other| key(other) != key(member)),
            "a block of a pack comes once"
        );
        let raw = RawMember {
            object: U64::new(member.object.0),
            block: U32::new(member.block.0),
            bytes: U16::new(member.squeezed.len() as u16),
            reserved: U16::ZERO,
        };
        pack.extend_from_slice(raw.as_bytes());
    }
    for member in members {
        pack.extend_from_slice(member.squeezed);
    }
    pack
}

/// Reads a pack; zeros may follow.
///
/// # Errors
/// The first thing that does not fit.
pub fn decode(bytes: &[u8]) -> Result<Vec<Member<'_>>, Corruption> {
    let length = bytes.len() as u64;
    let short = wrong("bytes of a pack", 2, HEAD_BYTES as u64, length);
    let (head, rest) = RawHead::ref_from_prefix(bytes).map_err(|_| short)?;
    equal("reserved bytes of a pack", 4, 0_u64, head.reserved.get())?;
    let used = usize::from(head.bytes.get());
    let (rest, padding) = used
        .checked_sub(HEAD_BYTES)
        .and_then(|used| rest.split_at_checked(used))
        .filter(|_| used <= BLOCK_BYTES)
        .ok_or(wrong("bytes of a pack", 2, length, used as u64))?;
    if let Some(at) = padding.iter().position(|byte| *byte != 0) {
        return Err(wrong("zeros behind a pack", (used + at) as u64, 0, 1));
    }
    let count = usize::from(head.members.get());
    let (raws, mut content) = <[RawMember]>::ref_from_prefix_with_elems(rest, count)
        .ok()
        .filter(|_| count > 0)
        .ok_or(wrong(
            "members of a pack",
            0,
            (used / MEMBER_BYTES) as u64,
            count as u64,
        ))?;
    let mut members: Vec<Member<'_>> = Vec::with_capacity(count);
    for (at, raw) in raws.iter().enumerate() {
        let offset = (HEAD_BYTES + at * MEMBER_BYTES) as u64;
        equal(
            "reserved bytes of a member",
            offset + 14,
            0_u64,
            raw.reserved.get(),
        )?;
        let bytes = usize::from(raw.bytes.get());
        let max = SQUEEZED_BYTES_MAX.min(content.len());
        let (squeezed, later) = content
            .split_at_checked(bytes)
            .filter(|_| (1..=max).contains(&bytes))
            .ok_or(wrong(
                "bytes of a member",
                offset + 12,
                max as u64,
                bytes as u64,
            ))?;
        content = later;
        let member = Member {
            object: ObjectId(raw.object.get()),
            block: BlockIndex(raw.block.get()),
            squeezed,
        };
        let same =
            |other: &Member<'_>| (other.object, other.block) == (member.object, member.block);
        if members.iter().any(same) {
            return Err(wrong("member that comes twice", offset, 0, 1));
        }
        members.push(member);
    }
    equal("bytes behind the members", 2, 0_u64, content.len() as u64)?;
    Ok(members)
}

/// The content of a block of a pack.
///
/// # Errors
/// The pack does not fit together, or does not have the block.
pub(crate) fn find(
    pack: &[u8],
    object: ObjectId,
    block: BlockIndex,
    content: &mut [u8; BLOCK_BYTES],
) -> Result<(), Corruption> {
    let members = decode(pack)?;
    let is = |member: &&Member<'_>| (member.object, member.block) == (object, block);
    let found = members.iter().find(is);
    let missing = wrong("block in its pack", 0, 1, 0);
    found.ok_or(missing)?.expand(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(fill: impl Fn(usize) -> u8) -> Block {
        let mut block = Block([0; BLOCK_BYTES]);
        for (at, byte) in block.0.iter_mut().enumerate() {
            *byte = fill(at);
        }
        block
    }

    #[test]
    fn what_is_packed_is_found_again_and_nothing_else() {
        let text = block(|at| b"a page of a database "[at % 21]);
        let numbers = block(|at| (at / 16) as u8);
        let squeezed = [squeeze(&text).unwrap(), squeeze(&numbers).unwrap()];
        let member = |block, squeezed| Member {
            object: ObjectId(7),
            block: BlockIndex(block),
            squeezed,
        };
        let members = [member(3, &*squeezed[0]), member(9, &*squeezed[1])];
        let mut pack = encode(&members);
        assert!(pack.len() < 1500, "{}", pack.len());
        pack.resize(BLOCK_BYTES, 0);
        assert_eq!(decode(&pack), Ok(members.to_vec()));
        let mut found = [0; BLOCK_BYTES];
        for (number, content) in [(3, &text), (9, &numbers)] {
            find(&pack, ObjectId(7), BlockIndex(number), &mut found).unwrap();
            assert_eq!(found, content.0);
        }
        assert!(find(&pack, ObjectId(7), BlockIndex(4), &mut found).is_err());
        assert!(find(&pack, ObjectId(8), BlockIndex(3), &mut found).is_err());
    }

    #[test]
    fn what_does_not_compress_stays_as_it_is() {
        let mut state = 1_u64;
        let mut noise = block(|_| 0);
        for byte in &mut noise.0 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
        assert_eq!(squeeze(&noise), None);
    }

    #[test]
    fn damaged_bytes_are_refused_or_one_block_and_never_more() {
        let text = squeeze(&block(|at| b"a page of a database "[at % 21])).unwrap();
        let one = squeeze(&block(|_| 5)).unwrap();
        let member = |block, squeezed| Member {
            object: ObjectId(7),
            block: BlockIndex(block),
            squeezed,
        };
        let pack = encode(&[member(3, &*text), member(4, &*one)]);
        for at in 0..pack.len() {
            for value in [0, 1, 0x7f, 0xf0, 0xff] {
                let mut pack = pack.clone();
                pack[at] = value;
                for member in decode(&pack).unwrap_or_default() {
                    let mut found = [0; BLOCK_BYTES];
                    if let Err(refused) = member.expand(&mut found) {
                        assert_eq!(refused.what, "bytes of a block of a pack");
                    }
                }
                assert!(decode(&pack[..at]).is_err());
            }
        }
    }

    #[test]
    fn a_pack_that_names_a_block_twice_is_refused() {
        let squeezed = squeeze(&block(|_| 5)).unwrap();
        let member = |block| Member {
            object: ObjectId(7),
            block: BlockIndex(block),
            squeezed: &squeezed,
        };
        let mut pack = encode(&[member(3), member(4)]);
        pack[HEAD_BYTES + MEMBER_BYTES + 8] = 3;
        let refused = decode(&pack).unwrap_err();
        assert_eq!(refused.what, "member that comes twice");
    }
}
