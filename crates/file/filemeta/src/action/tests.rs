use super::*;
use crate::key::{Number, SystemName};

fn one_of_each() -> Vec<Action> {
    let linked = ObjectKey::Linked(Number::new(0x0102_0304_0506).unwrap());
    let system = ObjectKey::System(SystemName::new("quota").unwrap());
    let owner = Handle::from_bytes(b"\x01handle").unwrap();
    vec![
        Action::Write {
            object: linked.clone(),
            offset: 4092,
            bytes: b"bytes".to_vec(),
        },
        Action::Fill {
            object: linked.clone(),
            generation: 9,
            first: 1,
            end: 3,
        },
        Action::Remove { object: system },
        Action::Discard {
            object: linked,
            offset: 8192,
            length: 4096,
        },
        Action::Attribute {
            owner,
            value: vec![1; 12],
        },
        Action::Clear { owner },
        Action::Note {
            kind: 258,
            payload: b"note".to_vec(),
        },
    ]
}

#[test]
fn what_is_written_is_read() {
    let actions = one_of_each();
    let bytes = encode(&actions);
    assert_eq!(decode(&bytes).unwrap(), actions);
    for cut in 0..bytes.len() {
        match decode(&bytes[..cut]) {
            Ok(fewer) => assert!(actions.starts_with(&fewer), "{cut}"),
            Err(corruption) => assert!(corruption.offset as usize <= cut),
        }
    }
}

/// The bytes of docs/formats/filemeta.md; another result would be another version.
#[test]
fn golden_a_request_of_version_1_does_not_change() {
    let hex: String = encode(&one_of_each())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(
        hex,
        concat!(
            "0101060504030201fc0f000000000000050000006279746573",
            "0201060504030201090000000000000001000000000000000300000000000000",
            "03040571756f7461",
            "040106050403020100200000000000000010000000000000",
            "050701",
            "68616e646c65",
            "0c00010101010101010101010101",
            "060701",
            "68616e646c65",
            "070201040000006e6f7465",
        )
    );
}

#[test]
fn requests_are_put_together_and_parts_of_cut_ones_dropped() {
    let bytes = encode(&one_of_each());
    let pieces: Vec<&[u8]> = bytes.chunks(bytes.len().div_ceil(3)).collect();
    let mut assembly = Assembly::default();
    // Cut behind its first part, then again from the start.
    assert_eq!(assembly.take(&part(0, 3, pieces[0])), Ok(None));
    assert_eq!(assembly.take(&part(0, 3, pieces[0])), Ok(None));
    assert_eq!(assembly.take(&part(1, 3, pieces[1])), Ok(None));
    let whole = assembly.take(&part(2, 3, pieces[2])).unwrap();
    assert_eq!(whole, Some(one_of_each()));
    assert!(assembly.take(&part(1, 3, pieces[1])).is_err());
    assert!(assembly.take(&part(0, 0, b"")).is_err());
    assert!(assembly.take(b"short").is_err());
}
