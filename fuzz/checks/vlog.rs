//! Files of validity-tracked logs.

use ::vlog::manifest::Manifest;
use ::vlog::{SECTOR_BYTES, SegmentHeader, inspect};
use codec::{Identity, kind, seal_object};

/// Any bytes are read as each of the files without a panic; then the input is taken as payloads
/// under checksums that fit, so that the rules behind the checksums are reached.
pub(crate) fn check(bytes: &[u8]) {
    let length = bytes.len() as u64;
    let decoded = SegmentHeader::decode(bytes);
    assert_eq!(decoded.is_ok(), inspect::segment(bytes, length).is_ok());
    if let Ok(header) = decoded {
        assert_eq!(bytes[..SECTOR_BYTES as usize], header.encode());
    }
    let _ = inspect::manifest(bytes);
    let _ = inspect::validity(bytes, length);
    let _ = inspect::directory(bytes);

    if let Ok(manifest) = Manifest::decode(bytes) {
        // But for what is reserved it is written as it was read.
        let again = manifest.encode();
        assert_eq!(again.len(), bytes.len());
        assert_eq!(Manifest::decode(&again), Ok(manifest));
    }
    let _ = inspect::sets(bytes);
    for count in 0..4 {
        if let Ok(found) = inspect::records(bytes, count) {
            assert_eq!(found, count as usize);
        }
    }
    let identity = Identity {
        set: [7; 16],
        object: 1,
        generation: 1,
    };
    for of in [
        kind::VLOG_SEGMENT,
        kind::VLOG_MANIFEST,
        kind::VLOG_VALIDITY,
        kind::VLOG_DIRECTORY,
    ] {
        let mut sealed = seal_object(of, 1, &identity, bytes);
        sealed.resize(sealed.len().next_multiple_of(SECTOR_BYTES as usize), 0);
        let length = sealed.len() as u64;
        let _ = match of {
            kind::VLOG_SEGMENT => inspect::segment(&sealed, length),
            kind::VLOG_MANIFEST => inspect::manifest(&sealed),
            kind::VLOG_VALIDITY => inspect::validity(&sealed, length),
            _ => inspect::directory(&sealed),
        };
    }
}
