//! RDB files.

use super::{Finding, Kind, Sample};

pub(super) const KIND: Kind = Kind {
    name: "RDB file",
    document: "docs/formats/rdb.md",
    is: |sample| sample.head.starts_with(b"REDIS"),
    read,
};

/// The file is read to its end, however long it is: keys are counted and the checksum is behind
/// them.
fn read(sample: &Sample) -> Finding {
    let (fields, valid) = match std::fs::File::open(&sample.path) {
        Ok(file) => values::rdb::inspect(file),
        Err(why) => (vec![("damage".to_owned(), why.to_string())], false),
    };
    Finding { valid, fields }
}

#[cfg(test)]
mod tests {
    use super::super::{KINDS, sample};

    #[test]
    fn a_file_is_recognised_and_counted() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let path = home.path().join("dump.rdb");
        let file = std::fs::File::create(&path).expect("a new file");
        let mut writer = values::rdb::Writer::new(file).expect("a header");
        writer.database(0, 1, 0).expect("a database");
        let value = values::StringValue::new(b"value").into();
        writer.key(b"key", &value, None).expect("a key");
        writer.finish().expect("an end");
        let sample = sample(&path).expect("a readable file");
        let kind = KINDS
            .iter()
            .find(|kind| (kind.is)(&sample))
            .expect("it is recognised");
        let finding = (kind.read)(&sample);
        assert_eq!((kind.name, finding.valid), ("RDB file", true));
        assert!(
            finding
                .fields
                .contains(&("database 0, string keys".into(), "1".into()))
        );
    }
}
