//! The file beside a log that says that a database is there.

use super::{Finding, Kind};

pub(super) const MARKER: Kind = Kind {
    name: "marker of a database in memory",
    document: "docs/formats/kv.md",
    is: |sample| sample.head.starts_with(b"holdfast kv database"),
    read: |sample| {
        let (valid, says) = match kv::marker::Marker::parse(&sample.head) {
            Some(kv::marker::Marker::Whole) => (true, "there is a database"),
            Some(kv::marker::Marker::Importing) => (true, "an import has begun, and has not ended"),
            None => (false, "damaged, or of a newer version"),
        };
        let fields = vec![("says".to_owned(), says.to_owned())];
        Finding { valid, fields }
    },
};

#[cfg(test)]
mod tests {
    use super::super::{KINDS, sample};
    use kv::marker::Marker;

    #[test]
    fn a_marker_is_recognised_and_read() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let path = home.path().join("kv.database");
        for (content, valid) in [
            (Marker::Whole.to_text(), true),
            (Marker::Importing.to_text(), true),
            ("holdfast kv database, version 9: whole\n".to_owned(), false),
        ] {
            std::fs::write(&path, content).expect("a file");
            let sample = sample(&path).expect("a readable file");
            let kind = KINDS.iter().find(|kind| (kind.is)(&sample));
            let kind = kind.expect("it is recognised");
            assert_eq!(kind.name, "marker of a database in memory");
            assert_eq!((kind.read)(&sample).valid, valid);
        }
    }
}
