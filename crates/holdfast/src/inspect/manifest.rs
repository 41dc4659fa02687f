//! Manifests of transfers, and ledgers of what waits.

use super::{Finding, HEAD_BYTES_MAX, Kind, Sample};
use crate::units;
use transfer::manifest::{self, Listed, Proved};

pub(super) const KIND: Kind = Kind {
    name: "manifest of a transfer",
    document: "docs/formats/manifest.md",
    is: |sample| sample.head.starts_with(b"holdfast-manifest "),
    read,
};

/// Objects that are shown.
const SHOWN: usize = 20;

fn read(sample: &Sample) -> Finding {
    let mut finding = Finding::default();
    let mut shown = Vec::new();
    let take = |listed: Listed| {
        if shown.len() < SHOWN {
            shown.push(listed);
        }
    };
    let read = manifest::read(&sample.head[..], take);
    match &read {
        Ok(manifest) => {
            finding.valid = true;
            for note in &manifest.notes {
                finding.field("note", note);
            }
            finding.field("files", manifest.files);
            finding.field("bytes", manifest.bytes);
            finding.field("other objects", manifest.others);
            let signed = manifest.signature.as_ref();
            let digits = |key: &[u8; 32]| key.map(|byte| format!("{byte:02x}")).concat();
            let key = signed.map_or("nobody".to_owned(), |signed| digits(&signed.key));
            finding.field("signed by", key);
        }
        Err(_) if sample.length > HEAD_BYTES_MAX => {
            finding.valid = true;
            let head = units::bytes(HEAD_BYTES_MAX);
            finding.field("note", format!("only the first {head} were looked at"));
        }
        Err(error) => finding.field("damage", error),
    }
    for listed in shown {
        let (word, what) = words(&listed);
        finding.field(word, what);
    }
    finding
}

fn words(listed: &Listed) -> (&'static str, String) {
    match listed {
        Listed::File(Proved {
            level, bytes, path, ..
        }) => ("file", format!("{level} {bytes} {path}")),
        Listed::Object(object) => {
            let (word, mode, path) = (object.kind.word(), object.carried.mode, &object.path);
            (word, format!("{mode:o} {path}"))
        }
        Listed::Name { path, first } => ("same", format!("{path}, as {first}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &[u8] = include_bytes!("../../../net/transfer/tests/golden/manifest-2");
    const FIRST: &[u8] = include_bytes!("../../../net/transfer/tests/golden/manifest-1");

    #[test]
    fn a_manifest_is_shown_and_damage_is_found() {
        let sample = |head: &[u8]| Sample {
            head: head.to_vec(),
            length: head.len() as u64,
            ..Sample::default()
        };
        let finding = read(&sample(GOLDEN));
        assert!((KIND.is)(&sample(GOLDEN)) && finding.valid);
        insta::assert_debug_snapshot!(finding.fields);
        assert!(read(&sample(FIRST)).valid);
        let mut bad = GOLDEN.to_vec();
        bad[200] ^= 1;
        assert!(!read(&sample(&bad)).valid);
    }
}
