//! What each side says first.

use crate::RpcError;
use serde::{Deserialize, Serialize};

/// The oldest version of frames that this code speaks.
pub const VERSION_MIN: u16 = 1;

/// The newest.
pub const VERSION_MAX: u16 = 1;

/// The least and the most that a receiver may let a peer send ahead on a stream: one frame of the
/// longest fits, and a few streams leave room in memory.
pub const WINDOW_BYTES: std::ops::RangeInclusive<u32> = 2 << 20..=64 << 20;

/// Bytes of a software's name.
const SOFTWARE_MAX: usize = 64;

/// The first frame of each side. Later versions may add fields at its end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// The oldest version of frames that it speaks.
    pub version_min: u16,
    /// The newest.
    pub version_max: u16,
    /// How much the peer may send on a stream before it is given more.
    pub window_bytes: u32,
    /// How many streams the peer may have open.
    pub streams_max: u16,
    /// Name and version, for messages.
    pub software: String,
}

/// What this side allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// How much the peer may send on a stream before its messages are taken, in bytes;
    /// brought into [`WINDOW_BYTES`].
    pub window_bytes: u32,
    /// How many streams the peer may have open.
    pub streams_max: u16,
}

impl Default for Limits {
    /// 4 MiB for each of 8 streams.
    fn default() -> Limits {
        Limits {
            window_bytes: 4 << 20,
            streams_max: 8,
        }
    }
}

impl Hello {
    /// What this code says.
    pub fn ours(limits: Limits) -> Hello {
        Hello {
            version_min: VERSION_MIN,
            version_max: VERSION_MAX,
            window_bytes: limits
                .window_bytes
                .clamp(*WINDOW_BYTES.start(), *WINDOW_BYTES.end()),
            streams_max: limits.streams_max,
            software: concat!("holdfast ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }

    /// Reads a hello; fields that a later version has added are left alone.
    ///
    /// # Errors
    /// It is none, or has values out of range.
    pub fn decode(bytes: &[u8]) -> Result<Hello, RpcError> {
        let (hello, _added) =
            postcard::take_from_bytes::<Hello>(bytes).map_err(|_| RpcError::Undecodable)?;
        if !WINDOW_BYTES.contains(&hello.window_bytes) {
            return Err(RpcError::Violation("a window out of range"));
        }
        if hello.software.len() > SOFTWARE_MAX {
            return Err(RpcError::Violation("a name of software that is too long"));
        }
        if hello.version_min > hello.version_max {
            return Err(RpcError::Violation("a range of versions that is empty"));
        }
        Ok(hello)
    }

    /// The version that two sides speak.
    ///
    /// # Errors
    /// There is none that both do.
    pub fn agree(&self, other: &Hello) -> Result<u16, RpcError> {
        let version = self.version_max.min(other.version_max);
        if version >= self.version_min && version >= other.version_min {
            return Ok(version);
        }
        Err(RpcError::NoCommonVersion {
            ours: (self.version_min, self.version_max),
            theirs: (other.version_min, other.version_max),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speaks(version_min: u16, version_max: u16) -> Hello {
        Hello {
            version_min,
            version_max,
            ..Hello::ours(Limits::default())
        }
    }

    #[test]
    fn the_highest_version_of_both_is_spoken() {
        for (ours, theirs, agreed) in [
            ((1, 1), (1, 1), Some(1)),
            ((1, 3), (2, 7), Some(3)),
            ((2, 7), (1, 3), Some(3)),
            ((3, 4), (1, 2), None),
            ((1, 2), (3, 4), None),
        ] {
            let (a, b) = (speaks(ours.0, ours.1), speaks(theirs.0, theirs.1));
            assert_eq!(a.agree(&b).ok(), agreed, "{ours:?} {theirs:?}");
        }
    }

    #[test]
    fn fields_of_a_later_version_are_left_alone() {
        let hello = speaks(1, 2);
        let mut bytes = postcard::to_allocvec(&hello).unwrap();
        bytes.extend_from_slice(b"added later");
        assert_eq!(Hello::decode(&bytes), Ok(hello));
        let far = Hello {
            window_bytes: u32::MAX,
            ..speaks(1, 1)
        };
        let bytes = postcard::to_allocvec(&far).unwrap();
        assert!(Hello::decode(&bytes).is_err());
    }
}
