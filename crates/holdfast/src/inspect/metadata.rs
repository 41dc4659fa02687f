//! Files of a metadata store: objects, the store's own file, its journal; and the attribute of a
//! file that has metadata.

use super::{Kind, Sample, object};
use rustix::io::Errno;
use std::path::Path;

const DOCUMENT: &str = "docs/formats/filemeta.md";

/// The usual name of the composite attribute; a store may have been given another.
const XATTR_NAME: &str = "trusted.hfm";

pub(super) const ATTRIBUTE: Kind = Kind {
    name: "file with metadata",
    document: DOCUMENT,
    is: |sample| sample.metadata.is_some(),
    read: |sample| {
        let bytes = sample.metadata.as_deref().unwrap_or_default();
        let mut finding = object::finding(sample, filemeta::inspect::attribute(bytes));
        finding.field("checksum", "not looked at: it needs the store");
        finding
    },
};

pub(super) const OBJECT: Kind = Kind {
    name: "metadata object",
    document: DOCUMENT,
    is: |sample| object::kind_of(sample) == Some(codec::kind::METADATA_OBJECT),
    read: |sample| {
        let fields = filemeta::inspect::object(&sample.head, sample.length);
        object::finding(sample, fields)
    },
};

pub(super) const STORE: Kind = Kind {
    name: "metadata store",
    document: DOCUMENT,
    is: |sample| object::kind_of(sample) == Some(codec::kind::METADATA_STORE),
    read: |sample| object::finding(sample, filemeta::inspect::store(&sample.head)),
};

pub(super) const JOURNAL: Kind = Kind {
    name: "segment of a metadata journal",
    document: DOCUMENT,
    is: |sample| (object::SEGMENT.is)(sample) && is_named(sample),
    read: |sample| {
        let mut unknown = 0;
        let fields = log::inspect_with(&sample.head, |record| {
            let said = filemeta::inspect::record(record.kind, &record.payload);
            Some(said.unwrap_or_else(|why| {
                unknown += 1;
                why.to_string()
            }))
        });
        let mut finding = object::finding(sample, fields);
        finding.valid &= unknown == 0;
        finding
    },
};

/// Whether the file has the name of a metadata journal: the bytes of a segment do not say which
/// log it is.
fn is_named(sample: &Sample) -> bool {
    let name = sample.path.file_name().unwrap_or_default();
    name.to_str().and_then(|name| name.split('.').next()) == Some("metadata")
}

/// The attribute's bytes; `None` where there is none.
pub(super) fn attribute(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    // One byte more than an attribute may have, so that a longer one is seen to be longer.
    let mut buffer = [0; filemeta::COMPOSITE_BYTES_MAX + 1];
    match rustix::fs::lgetxattr(path, XATTR_NAME, &mut buffer) {
        Ok(length) => Ok(buffer.get(..length).map(<[u8]>::to_vec)),
        Err(Errno::RANGE) => Ok(Some(buffer.to_vec())),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Finding, KINDS, sample};
    use filemeta::{Options, Places, Store, StoreId, SystemName, Tag};
    use std::path::{Path, PathBuf};

    /// A store with one of everything.
    fn filled(root: &Path) -> PathBuf {
        let owner = root.join("letter");
        std::fs::write(&owner, "x").expect("a new file");
        let meta = root.join("meta");
        let places = Places::real(&meta).expect("a file system with handles");
        let options = Options {
            segment_bytes: 1 << 16,
            ..Options::default()
        };
        let store = Store::create(&places, StoreId(7), c"trusted.hfm", options).expect("a store");
        let dir = env::real::RealDir::open(root).expect("the directory");
        let handle = env::Dir::handle(&dir, "letter").expect("a handle");
        let mut request = store.request();
        let tag = |number| Tag::new(number).expect("a tag");
        request.put(&handle, tag(1), &[7; 9000]).expect("room");
        request.share(&handle, tag(2), b"shared");
        request.set_value(&handle, tag(3), b"tiny");
        request.put_system(&SystemName::new("quota").expect("a name"), b"system");
        request.note(5, b"note");
        request.commit().expect("a commit");
        store.checkpoint().expect("a checkpoint");
        owner
    }

    fn look(path: &Path) -> (&'static str, Finding) {
        let sample = sample(path).expect("a readable file");
        let kind = KINDS.iter().find(|kind| (kind.is)(&sample));
        let kind = kind.unwrap_or_else(|| panic!("{} is of no kind", path.display()));
        (kind.name, (kind.read)(&sample))
    }

    #[test]
    fn every_file_of_a_store_is_known_and_valid() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let owner = filled(root.path());
        let mut kinds = vec![look(&owner).0];
        for dir in ["objects", "journal"] {
            let files = std::fs::read_dir(root.path().join("meta").join(dir));
            for file in files.expect("the directory").flatten() {
                if file.file_name() == "lock" {
                    continue;
                }
                let (kind, finding) = look(&file.path());
                assert!(finding.valid, "{}: {finding:?}", file.path().display());
                kinds.push(kind);
            }
        }
        kinds.sort_unstable();
        kinds.dedup();
        let all = [
            "file with metadata",
            "metadata object",
            "metadata store",
            "segment of a metadata journal",
        ];
        assert_eq!(kinds, all);
    }

    #[test]
    fn a_metadata_object_is_printed_field_by_field_and_damage_by_block() {
        let root = tempfile::tempdir().expect("a temporary directory");
        filled(root.path());
        let path = root.path().join("meta/objects/l000000000001");
        let (_, mut finding) = look(&path);
        // The handle is the file system's choice.
        finding.fields.retain(|(name, _)| name != "owner");
        insta::assert_debug_snapshot!(finding.fields);
        let mut bytes = std::fs::read(&path).expect("the object");
        bytes[4096 + 9] ^= 1;
        std::fs::write(&path, &bytes).expect("the damage");
        let (_, damaged) = look(&path);
        assert!(!damaged.valid);
        assert!(damaged.fields.iter().any(|(name, _)| name == "block 1"));
        bytes.truncate(5000);
        std::fs::write(&path, &bytes).expect("the cut");
        assert!(!look(&path).1.valid);
    }

    #[test]
    fn the_journal_is_put_into_words() {
        let root = tempfile::tempdir().expect("a temporary directory");
        filled(root.path());
        let path = root
            .path()
            .join("meta/journal/metadata.0000000000000001.segment");
        let (_, finding) = look(&path);
        let said: Vec<&str> = finding
            .fields
            .iter()
            .filter(|(name, _)| name.starts_with("record "))
            .map(|(_, value)| value.as_str())
            .collect();
        assert!(said[0].contains("linked object 1: "), "{said:?}");
        assert!(said[0].contains("note 5 of 4 bytes"), "{said:?}");
        assert!(
            said[1].contains("is in the files, open notes of 1"),
            "{said:?}"
        );
    }
}
