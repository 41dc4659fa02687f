//! Object files and the file `store` of file metadata.

use filemeta::header::Header;
use filemeta::superblock::Superblock;

/// Any bytes are refused or round-trip; then the same with checksums that fit.
pub(crate) fn check(bytes: &[u8]) {
    check_one(bytes);
    // Kind, payload, and a header over it that verifies.
    let Some((&kind, rest)) = bytes.split_first() else {
        return;
    };
    let identity = codec::Identity {
        set: [3; 16],
        object: u64::from(kind >> 4) << 48 | u64::from(kind & 15),
        generation: 2,
    };
    let payload = &rest[..rest.len().min(88)];
    let mut sealed = codec::seal_object(u16::from(3 + kind % 2), 1, &identity, payload);
    check_one(&sealed);
    sealed.resize(512, 0);
    sealed.extend_from_slice(rest);
    check_one(&sealed);
}

fn check_one(bytes: &[u8]) {
    let area = bytes.get(..512).unwrap_or(bytes);
    match Header::decode(area) {
        Ok((store, identity, header)) => {
            if let Some(key) = header.key(&identity) {
                let again = header.encode(&key, store);
                if identity.object & 0xffff_ffff_ffff == 0 {
                    return;
                }
                // A system object's number is that of its name; another is not written again.
                if codec::open_object(&again, 3, Some(&identity)).is_ok() {
                    assert_eq!(area.get(..again.len()), Some(&again[..]));
                }
            }
            assert!(header.length <= filemeta::OBJECT_BYTES_MAX);
        }
        Err(_) => assert!(filemeta::inspect::object(bytes, bytes.len() as u64).is_err()),
    }
    if let Ok(superblock) = Superblock::decode(bytes) {
        let again = superblock.encode();
        assert_eq!(bytes.get(..again.len()), Some(&again[..]));
        assert!(filemeta::inspect::store(bytes).is_ok());
    }
}
