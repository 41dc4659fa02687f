//! A segment of the write-intent journal or of a dirty log, record by record.

use super::{Finding, Kind, Sample, object};

pub(super) const KIND: Kind = Kind {
    name: "segment of the write-intent journal",
    document: "docs/formats/intent-journal.md",
    is: |sample| (object::SEGMENT.is)(sample) && is_named(sample),
    read,
};

/// Whether the file has the name of an intent or dirty log: the bytes of a segment do not say
/// which log it is.
fn is_named(sample: &Sample) -> bool {
    let name = sample.path.file_name().unwrap_or_default();
    let log = name.to_str().and_then(|name| name.split('.').next());
    log.is_some_and(|log| log == "intent" || log.starts_with("dirty-"))
}

fn read(sample: &Sample) -> Finding {
    let mut unknown = 0;
    let fields = log::inspect_with(&sample.head, |record| {
        let said = redundancy::intent::describe(record.sequence.0, record.kind, &record.payload);
        Some(said.unwrap_or_else(|why| {
            unknown += 1;
            why
        }))
    });
    let mut finding = object::finding(sample, fields);
    finding.valid &= unknown == 0;
    finding
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(records: &[(u16, &[u8])]) -> Sample {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let real = env::real::RealDir::open(dir.path()).expect("the directory");
        let options = log::Options {
            segment_bytes: 1 << 16,
        };
        let log = log::Log::create(std::sync::Arc::new(real), "intent", log::LogId(7), options)
            .expect("a new log");
        for (kind, payload) in records {
            let sequence = log.append(*kind, payload).expect("an append");
            log.commit(sequence).expect("a commit");
        }
        drop(log);
        let path = dir.path().join("intent.0000000000000001.segment");
        super::super::sample(&path).expect("a readable file")
    }

    #[test]
    fn each_record_is_put_into_words() {
        // The examples of docs/formats/intent-journal.md.
        let sample = segment(&[
            (1, b"\x00\x80\x80\x80\x80\x80\x20"),
            (1, b"\x02\x01\x02\x07\xc8\x01\x81\x00"),
            (1, b"\x02\x01\x03\x07\x02\xff\x00"),
            (
                1,
                b"\x02\x00\x01\x07\x02\x00\x02\xa0\xa1\x02\x01\xc0\x01\x00\x01\xd0\x01f",
            ),
            (1, b"\x03\x07\x08\x01\x01a\xac\x02\x02bc\x01"),
            (1, b"\x04\x00"),
            (1, b"\x01"),
        ]);
        assert!((KIND.is)(&sample));
        let finding = read(&sample);
        assert!(finding.valid, "{finding:?}");
        let records: Vec<_> = finding
            .fields
            .iter()
            .filter(|(name, _)| name.starts_with("record "))
            .collect();
        insta::assert_debug_snapshot!(records);
    }

    #[test]
    fn a_record_of_another_version_makes_the_segment_invalid() {
        let finding = read(&segment(&[(2, b"\x01")]));
        assert!(!finding.valid, "{finding:?}");
        let said = finding.fields.iter().find(|(name, _)| name == "record 1");
        let said = said.map(|(_, value)| value.as_str()).unwrap_or_default();
        assert!(said.contains("is of kind 2"), "{said}");
    }

    #[test]
    fn a_segment_of_another_log_is_left_to_the_general_printer() {
        let mut sample = segment(&[]);
        sample
            .path
            .set_file_name("journal.0000000000000001.segment");
        assert!(!(KIND.is)(&sample));
    }
}
