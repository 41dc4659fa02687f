//! A copy of a user's file, directory or other object: its label.

use super::{Finding, Kind, Sample};
use redundancy::label::{LABEL_BYTES, Label, ObjectId, XATTR_NAME};
use rustix::io::Errno;
use std::path::Path;

pub(super) const KIND: Kind = Kind {
    name: "copy of an object",
    document: "docs/formats/label.md",
    is: |sample| sample.label.is_some(),
    read,
};

/// The label's bytes; `None` where there is none.
pub(super) fn attribute(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    // One byte more than a label has, so that a longer attribute is seen to be longer.
    let mut buffer = [0; LABEL_BYTES + 1];
    match rustix::fs::lgetxattr(path, XATTR_NAME, &mut buffer) {
        Ok(length) => Ok(buffer.get(..length).map(<[u8]>::to_vec)),
        Err(Errno::RANGE) => Ok(Some(buffer.to_vec())),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn read(sample: &Sample) -> Finding {
    let mut finding = Finding::default();
    finding.field("length", sample.length);
    let bytes = sample.label.as_deref().unwrap_or_default();
    match Label::decode(bytes) {
        Some(label) => {
            finding.valid = true;
            finding.field("object", format_args!("{:#x}", label.id.0));
            if label.id == ObjectId::ROOT {
                finding.field("is", "the root of the protected tree");
            }
            finding.field("home store", label.home.0);
            let copies: Vec<String> = label.copies.iter().map(|s| s.0.to_string()).collect();
            finding.field("copies on stores", copies.join(", "));
            finding.field("set", format_args!("{:016x}...", label.set));
        }
        None => {
            let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            finding.field("label", format_args!("not valid: {}", hex.join("")));
        }
    }
    finding
}

#[cfg(test)]
mod tests {
    use super::*;
    use redundancy::label::{StoreIndex, StoreMask};

    #[test]
    fn a_label_is_printed_field_by_field() {
        let label = Label {
            id: ObjectId(0x0100_0000_0007),
            home: StoreIndex(2),
            copies: StoreMask(0b101),
            set: 0x5f0c_2f6a_8a1d_4f43,
        };
        let sample = Sample {
            length: 4096,
            label: Some(label.encode().to_vec()),
            ..Sample::default()
        };
        let finding = read(&sample);
        assert!(finding.valid);
        insta::assert_debug_snapshot!(finding.fields);
    }

    #[test]
    fn every_flipped_bit_of_a_label_is_seen() {
        let label = Label {
            id: ObjectId(9),
            home: StoreIndex(0),
            copies: StoreMask(3),
            set: 1,
        };
        for bit in 0..LABEL_BYTES * 8 {
            let mut bytes = label.encode().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let label = Some(bytes);
            assert!(
                !read(&Sample {
                    label,
                    ..Sample::default()
                })
                .valid,
                "bit {bit}"
            );
        }
    }
}
