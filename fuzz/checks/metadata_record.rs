//! Records of the metadata journal.

use filemeta::action::{Assembly, Checkpoint, decode};

/// Any bytes are refused, or are a record that can be shown.
pub(crate) fn check(bytes: &[u8]) {
    for kind in 0..5 {
        let _ = filemeta::inspect::record(kind, bytes);
    }
    let _ = Checkpoint::decode(bytes);
    let Ok(actions) = decode(bytes) else {
        return;
    };
    // The same request in two parts is the same request.
    let (front, back) = bytes.split_at(bytes.len() / 2);
    let part = |number: u32, piece: &[u8]| {
        [&number.to_le_bytes()[..], &2u32.to_le_bytes(), piece].concat()
    };
    let mut assembly = Assembly::default();
    assert_eq!(assembly.take(&part(0, front)), Ok(None));
    assert_eq!(assembly.take(&part(1, back)), Ok(Some(actions)));
    // And alone, as a journal has it.
    let whole = [&0u32.to_le_bytes()[..], &1u32.to_le_bytes(), bytes].concat();
    assert!(filemeta::inspect::record(1, &whole).is_ok());
}
