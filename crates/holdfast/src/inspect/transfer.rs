//! Notes of transfers.

use super::{Finding, Kind, Sample, object};
use codec::kind::TRANSFER_NOTE;
use transfer::{Note, Time};

pub(super) const NOTE: Kind = Kind {
    name: "note of a transfer",
    document: "docs/formats/transfer-note.md",
    is: |sample| object::kind_of(sample) == Some(TRANSFER_NOTE),
    read,
};

fn read(sample: &Sample) -> Finding {
    let mut finding = Finding::default();
    // Which note it is says its header; its name may have been changed. Others may stand behind it.
    let (head, behind) = codec::split_object(&sample.head).unwrap_or((&sample.head, &[]));
    let opened = codec::open_object(head, TRANSFER_NOTE, None);
    let number = match &opened {
        Ok(object) => object.identity.object,
        Err(corruption) => {
            finding.field("damage", corruption);
            return finding;
        }
    };
    finding.field("number", number);
    let Some(note) = Note::decode(number, head) else {
        finding.field("damage", "the payload is no note of this version");
        return finding;
    };
    let time = |time: &Time| format!("{}.{:09}", time.seconds, time.nanoseconds);
    if !behind.is_empty() {
        let all = transfer::held_notes(&sample.head).len();
        finding.field("notes in this file", all);
    }
    finding.valid = true;
    finding.field("path", &note.path);
    finding.field("level", note.level);
    finding.field("proved bytes", note.proved_bytes);
    finding.field("source bytes", note.source.bytes);
    finding.field("source device", note.source.device);
    finding.field("source inode", note.source.inode);
    finding.field("source modified", time(&note.source.modified));
    finding.field("source changed", time(&note.source.changed));
    finding
}

#[cfg(test)]
mod tests {
    use super::*;
    use transfer::{Level, Source, TreePath};

    fn sample() -> Sample {
        let note = Note {
            path: TreePath::root().join(b"dir").join(b"file\xff"),
            source: Source {
                device: 65024,
                inode: 12,
                bytes: 100 << 20,
                modified: Time {
                    seconds: 1_700_000_000,
                    nanoseconds: 5,
                },
                changed: Time {
                    seconds: 1_700_000_001,
                    nanoseconds: 6,
                },
            },
            level: Level::Device,
            proved_bytes: 32 << 20,
        };
        let head = note.encode(7).expect("a note");
        Sample {
            length: head.len() as u64,
            head,
            ..Sample::default()
        }
    }

    #[test]
    fn a_note_is_printed_field_by_field() {
        let finding = read(&sample());
        assert!(finding.valid);
        insta::assert_debug_snapshot!(finding.fields);
    }

    #[test]
    fn every_flipped_bit_of_a_note_is_seen() {
        for bit in 0..sample().head.len() * 8 {
            let mut sample = sample();
            sample.head[bit / 8] ^= 1 << (bit % 8);
            assert!(!read(&sample).valid, "bit {bit}");
        }
    }
}
