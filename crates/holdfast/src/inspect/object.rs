//! Sealed objects and log segments.

use super::{Finding, HEAD_BYTES_MAX, Kind, Sample};
use codec::{Corruption, Field, OBJECT_MAGIC, kind};

pub(super) const SEGMENT: Kind = Kind {
    name: "log segment",
    document: "docs/formats/log.md",
    is: |sample| kind_of(sample) == Some(kind::LOG_SEGMENT),
    read: |sample| finding(sample, log::inspect(&sample.head)),
};

pub(super) const OBJECT: Kind = Kind {
    name: "sealed object",
    document: "docs/formats/object.md",
    is: |sample| kind_of(sample).is_some(),
    read: |sample| finding(sample, codec::inspect(&sample.head)),
};

/// The kind of a sealed object, unverified: bytes 10 and 11 of its header.
pub(super) fn kind_of(sample: &Sample) -> Option<u16> {
    let rest = sample.head.strip_prefix(&OBJECT_MAGIC)?;
    let bytes = rest.get(2..4)?.try_into().ok()?;
    Some(u16::from_le_bytes(bytes))
}

pub(super) fn finding(sample: &Sample, read: Result<Vec<Field>, Corruption>) -> Finding {
    let mut finding = Finding::default();
    if sample.length > HEAD_BYTES_MAX {
        finding.field("shown", format_args!("the first {HEAD_BYTES_MAX} bytes"));
    }
    match read {
        Ok(fields) => {
            finding.valid = !fields.iter().any(|(_, value)| value.starts_with("DAMAGED"));
            finding.fields.extend(fields);
        }
        Err(corruption) => finding.field("damage", corruption),
    }
    finding
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::{Identity, seal_object};

    fn sealed() -> Sample {
        let identity = Identity {
            set: [0xab; 16],
            object: 7,
            generation: 2,
        };
        let head = seal_object(kind::EXAMPLE, 1, &identity, b"payload");
        Sample {
            length: head.len() as u64,
            head,
            ..Sample::default()
        }
    }

    #[test]
    fn a_sealed_object_is_printed_field_by_field() {
        let sample = sealed();
        assert!((OBJECT.is)(&sample));
        assert!(!(SEGMENT.is)(&sample));
        let finding = (OBJECT.read)(&sample);
        assert!(finding.valid);
        insta::assert_debug_snapshot!(finding.fields);
    }

    #[test]
    fn every_flipped_bit_behind_the_magic_is_seen() {
        for bit in 64..sealed().head.len() * 8 {
            let mut sample = sealed();
            sample.head[bit / 8] ^= 1 << (bit % 8);
            assert!(!(OBJECT.read)(&sample).valid, "bit {bit}");
        }
    }

    #[test]
    fn a_log_segment_lists_its_records() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let real = env::real::RealDir::open(dir.path()).expect("the directory");
        let options = log::Options {
            segment_bytes: 1 << 20,
        };
        let log = log::Log::create(std::sync::Arc::new(real), "journal", log::LogId(7), options)
            .expect("a new log");
        let sequence = log.append(1, b"intent").expect("an append");
        log.commit(sequence).expect("a commit");
        drop(log);
        let segments: Vec<Sample> = std::fs::read_dir(dir.path())
            .expect("the directory")
            .flatten()
            .map(|entry| super::super::sample(&entry.path()).expect("a readable file"))
            .filter(|sample| (SEGMENT.is)(sample))
            .collect();
        let shown: Vec<Finding> = segments.iter().map(SEGMENT.read).collect();
        assert!(shown.iter().all(|finding| finding.valid), "{shown:?}");
        let records = |finding: &Finding| {
            let field = finding.fields.iter().find(|(name, _)| name == "records");
            field.map(|(_, value)| value.clone())
        };
        assert!(
            shown.iter().any(|f| records(f).as_deref() == Some("1")),
            "{shown:?}"
        );
    }
}
