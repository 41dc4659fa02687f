//! Files of a validity-tracked log.

use super::{Kind, object};
use codec::kind;

const DOCUMENT: &str = "docs/formats/vlog.md";

pub(super) const SEGMENT: Kind = Kind {
    name: "segment of a validity-tracked log",
    document: DOCUMENT,
    is: |sample| object::kind_of(sample) == Some(kind::VLOG_SEGMENT),
    read: |sample| {
        let fields = vlog::inspect::segment(&sample.head, sample.length);
        object::finding(sample, fields)
    },
};

pub(super) const MANIFEST: Kind = Kind {
    name: "manifest of a validity-tracked log",
    document: DOCUMENT,
    is: |sample| object::kind_of(sample) == Some(kind::VLOG_MANIFEST),
    read: |sample| object::finding(sample, vlog::inspect::manifest(&sample.head)),
};

pub(super) const VALIDITY: Kind = Kind {
    name: "validity of a validity-tracked log",
    document: DOCUMENT,
    is: |sample| object::kind_of(sample) == Some(kind::VLOG_VALIDITY),
    read: |sample| {
        let fields = vlog::inspect::validity(&sample.head, sample.length);
        object::finding(sample, fields)
    },
};

pub(super) const DIRECTORY: Kind = Kind {
    name: "directory of a validity-tracked log",
    document: DOCUMENT,
    is: |sample| object::kind_of(sample) == Some(kind::VLOG_DIRECTORY),
    read: |sample| object::finding(sample, vlog::inspect::directory(&sample.head)),
};

#[cfg(test)]
mod tests {
    use super::super::{Finding, KINDS, sample};

    #[test]
    fn every_file_of_a_log_is_recognised_and_printed() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let path = home.path().to_str().expect("a path");
        let directory = || vec![vlog::Directory::open(path).expect("the directory")];
        vlog::Vlog::create("db", directory(), vlog::VlogId(7)).expect("a new log");
        let options = || vlog::Options {
            // Threads would decide how many blocks there are.
            threads: false,
            ..vlog::Options::default()
        };
        let (log, _) = vlog::Vlog::open_all("db", directory(), options()).expect("the log");
        let (position, _) = log.append(3, b"one", None).expect("an append");
        log.append(3, b"two", Some(position)).expect("an append");
        log.close().expect("closed");
        let mut shown: Vec<(String, Finding)> = Vec::new();
        for entry in std::fs::read_dir(path).expect("the directory").flatten() {
            let sample = sample(&entry.path()).expect("a readable file");
            if sample.length == 0 {
                continue;
            }
            let kind = KINDS.iter().find(|kind| (kind.is)(&sample));
            let kind = kind.expect("it is recognised");
            assert!(
                kind.name.ends_with("of a validity-tracked log"),
                "{}",
                kind.name
            );
            let mut finding = (kind.read)(&sample);
            assert!(finding.valid, "{finding:?}");
            finding.fields.retain(|(name, _)| name != "generation");
            shown.push((kind.name.to_owned(), finding));
        }
        shown.sort_by(|one, other| one.0.cmp(&other.0));
        insta::assert_debug_snapshot!(shown);
    }
}
