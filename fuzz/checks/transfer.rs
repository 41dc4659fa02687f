//! What sender and receiver of a tree say, and the notes that a receiver keeps.

use codec::{Identity, kind, seal_object};
use transfer::manifest::{self, Listed, Version};
use transfer::{NOTE_VERSION, Note, ToReceiver, ToSender, TreePath};

/// Any bytes are refused or round-trip; a path that is allowed leads nowhere else.
pub(crate) fn check(bytes: &[u8]) {
    round_trip::<ToReceiver>(bytes);
    round_trip::<ToSender>(bytes);
    if let Ok(ToReceiver::Offer { entries, .. }) = rpc::decode(bytes) {
        entries.iter().for_each(|entry| path(&entry.path));
    }
    note(bytes);
    lines(bytes);
    let identity = Identity {
        set: [0; 16],
        object: 7,
        generation: 0,
    };
    note(&seal_object(
        kind::TRANSFER_NOTE,
        NOTE_VERSION,
        &identity,
        bytes,
    ));
}

fn round_trip<T>(bytes: &[u8])
where
    T: serde::Serialize + for<'a> serde::Deserialize<'a> + PartialEq + std::fmt::Debug,
{
    let Ok(value) = rpc::decode::<T>(bytes) else {
        return;
    };
    let again = rpc::encode(&value).expect("what was read can be written");
    assert_eq!(rpc::decode::<T>(&again).as_ref(), Ok(&value));
}

fn note(bytes: &[u8]) {
    for (number, note) in transfer::held_notes(bytes) {
        assert!(note.path.is_allowed());
        let again = note.encode(number).expect("what was read can be written");
        assert_eq!(transfer::held_notes(&again), [(number, note)]);
    }
    if let Some(note) = Note::decode(7, bytes) {
        assert!(note.path.is_allowed());
        let again = note.encode(7).expect("what was read can be written");
        assert_eq!(Note::decode(7, &again), Some(note));
    }
}

/// Lines of a manifest have one way to be written, and lead nowhere else.
fn lines(bytes: &[u8]) {
    // Without the sum behind them none is a manifest, however far it is read.
    let _none = manifest::read(bytes, |listed| path(listed.path()));
    for version in [Version::One, Version::Two] {
        let first = format!("{}{}\n", manifest::FIRST_WORDS, version.number());
        let all = [first.as_bytes(), bytes].concat();
        let _none = manifest::read(&all[..], |listed| path(listed.path()));
        for line in bytes.split(|byte| *byte == b'\n') {
            let Ok(listed) = Listed::parse(version, line) else {
                continue;
            };
            path(listed.path());
            let again = listed.to_line();
            let again = again.strip_suffix(b"\n").expect("a line");
            assert_eq!(Listed::parse(Version::Two, again), Ok(listed));
            assert!(version == Version::One || again == line);
        }
    }
}

fn path(path: &TreePath) {
    if !path.is_allowed() {
        return;
    }
    for name in path.names() {
        assert!(!name.is_empty() && name != b"." && name != b"..");
        assert!(!name.contains(&b'/') && !name.contains(&0));
    }
    if let Some((dir, name)) = path.split() {
        assert_eq!(dir.join(name), *path);
    }
}
