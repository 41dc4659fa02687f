//! Which shard a key belongs to.

/// Slots that keys fall into, as clients of Redis Cluster know them.
pub const SLOTS: u16 = 16384;

/// Virtual shards. Records on disk are sorted by them, so the number is a part of the format; how many
/// threads share them is not.
pub const SHARDS: usize = 256;

/// CRC-16/XMODEM of each byte.
const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = (index as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ 0x1021
            };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        let at = ((crc >> 8) ^ u16::from(*byte)) & 0xff;
        (crc << 8) ^ TABLE[usize::from(at)]
    })
}

/// What of a key decides: between the first `{` and the next `}`, if something is there.
fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else {
        return key;
    };
    let rest = &key[open + 1..];
    match rest.iter().position(|byte| *byte == b'}') {
        Some(length) if length > 0 => &rest[..length],
        _ => key,
    }
}

/// The slot of a key (Redis Cluster specification, "Key distribution model").
pub fn slot(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS
}

/// A virtual shard: a stream of the log, and a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ShardId(pub u8);

impl ShardId {
    /// The shard of a key.
    pub fn of(key: &[u8]) -> ShardId {
        // 64 slots that follow each other are one shard.
        ShardId((slot(key) / (SLOTS / SHARDS as u16)) as u8)
    }

    /// As an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
    }
}
