//! Composite attributes.

use env::handle::Handle;
use filemeta::{Composite, StoreId};

/// Any bytes are refused or round-trip; then the same with a checksum that fits.
pub(crate) fn check(bytes: &[u8]) {
    let Some(owner) = Handle::from_bytes(b"\x01an owner") else {
        return;
    };
    let store = StoreId(7);
    if let Ok(composite) = Composite::decode(bytes, store, &owner) {
        let again = composite.encode(store, &owner, bytes.len());
        assert_eq!(again.as_deref(), Some(bytes));
    }
    let shown = filemeta::inspect::attribute(bytes);
    let Ok(composite) = Composite::decode_unverified(bytes) else {
        assert!(shown.is_err());
        return;
    };
    let Some(fitting) = composite.encode(store, &owner, 0) else {
        return;
    };
    assert_eq!(Composite::decode(&fitting, store, &owner), Ok(composite));
}
