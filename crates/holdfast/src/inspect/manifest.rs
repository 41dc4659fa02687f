//! Manifests of transfers, and ledgers of what waits.

use super::{Finding, HEAD_BYTES_MAX, Kind, Sample};
use crate::units;
use transfer::manifest;

pub(super) const KIND: Kind = Kind {
    name: "manifest of a transfer",
    document: "docs/formats/manifest.md",
    is: |sample| sample.head.starts_with(b"holdfast-manifest "),
    read,
};

/// Files that are shown.
const SHOWN: u64 = 20;

fn read(sample: &Sample) -> Finding {
    let mut finding = Finding::default();
    let mut files = Vec::new();
    let mut count = 0;
    let take = |proved: manifest::Proved| {
        count += 1;
        if count <= SHOWN {
            files.push(proved);
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
            let signed = manifest.signature.as_ref();
            let digits = |key: &[u8; 32]| key.map(|byte| format!("{byte:02x}")).concat();
            let key = signed.map_or("nobody".to_owned(), |signed| digits(&signed.key));
            finding.field("signed by", key);
        }
        Err(_) if sample.length > HEAD_BYTES_MAX => {
            finding.valid = true;
            let shown = units::bytes(HEAD_BYTES_MAX);
            finding.field("note", format!("only the first {shown} were looked at"));
        }
        Err(error) => finding.field("damage", error),
    }
    for proved in files {
        let what = format!("{} {} {}", proved.level, proved.bytes, proved.path);
        finding.field("file", what);
    }
    finding
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &[u8] = include_bytes!("../../../net/transfer/tests/golden/manifest-1");

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
        let mut bad = GOLDEN.to_vec();
        bad[200] ^= 1;
        assert!(!read(&sample(&bad)).valid);
    }
}
