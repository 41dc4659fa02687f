use super::*;
use crate::entry::{Time, TreePath};
use crate::level::Level;
use crate::root_sum::RootSum;
use std::os::fd::OwnedFd;

fn carried(number: u8) -> Carried {
    let sum = |bit: u8| (number & bit != 0).then_some([number; 32]);
    Carried {
        mode: 0o4000 | u32::from(number),
        uid: u32::from(number) * 1000,
        gid: u32::MAX,
        acl: sum(1),
        attributes: sum(2),
    }
}

fn proved(name: &[u8], number: u8) -> Proved {
    Proved {
        level: Level::Device,
        at: 1_763_802_000,
        bytes: u64::from(number) * 4096 + 1,
        modified: Time {
            seconds: -3,
            nanoseconds: u32::from(number),
        },
        sum: RootSum([number; 32]),
        carried: Some(carried(number)),
        path: TreePath::root().join(b"dir").join(name),
    }
}

const NAMES: [&[u8]; 6] = [
    b"plain",
    b" ",
    b"new\nline",
    b"back\\slash",
    b"\xff\xfe",
    b"\x7f",
];

fn files() -> Vec<Listed> {
    let numbered = (1..).zip(NAMES);
    numbered
        .map(|(number, name)| Listed::File(proved(name, number)))
        .collect()
}

/// As a ledger of version 1 leaves them.
fn without_carried(files: Vec<Listed>) -> Vec<Listed> {
    let mut files = files;
    for listed in &mut files {
        if let Listed::File(proved) = listed {
            proved.carried = None;
        }
    }
    files
}

fn others() -> Vec<Listed> {
    let in_dir = |name: &[u8]| TreePath::root().join(b"dir").join(name);
    let object = |number: u8, kind, path| {
        Listed::Object(Object {
            path,
            kind,
            modified: Time {
                seconds: 1 << 40,
                nanoseconds: 999_999_999,
            },
            carried: carried(number),
        })
    };
    vec![
        object(0, Kind::Link(b"to a \\ and\n\xff".to_vec()), in_dir(b"a b")),
        object(1, Kind::Pipe, in_dir(b"pipe")),
        object(2, Kind::Socket, in_dir(b"socket")),
        object(3, Kind::Character(rustix::fs::makedev(1, 3)), in_dir(b"c")),
        object(
            4,
            Kind::Block(rustix::fs::makedev(4095, 1 << 19)),
            in_dir(b"b"),
        ),
        Listed::Name {
            path: in_dir(b"further name"),
            first: in_dir(b" "),
        },
        object(5, Kind::Directory, TreePath::root().join(b"dir")),
        object(6, Kind::Directory, TreePath::root()),
    ]
}

fn everything() -> Vec<Listed> {
    [files(), without_carried(files()), others()].concat()
}

/// The same key each time, so that the bytes are the same.
fn signer(certificate: Option<Vec<u8>>) -> Signer {
    // PKCS #8 version 1 of an Ed25519 key (RFC 8410, 7).
    let head = [
        0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20,
    ];
    Signer::new(&[&head[..], &[42; 32]].concat(), certificate).unwrap()
}

fn written(all: &[Listed], signer: Option<&Signer>) -> Vec<u8> {
    let file = tempfile::tempfile().unwrap();
    let mut writer = Writer::begin(OwnedFd::from(file), &["made by a\ntest".to_owned()]);
    all.iter().for_each(|listed| writer.add(listed).unwrap());
    let (file, length) = writer.finish(signer).unwrap();
    let mut bytes = vec![0; length as usize];
    crate::content::read_range(&file, 0, &mut bytes, false).unwrap();
    bytes
}

fn read_all(bytes: &[u8]) -> Result<(Manifest, Vec<Listed>), ManifestError> {
    let mut found = Vec::new();
    let manifest = read(bytes, |listed| found.push(listed))?;
    Ok((manifest, found))
}

#[test]
fn what_is_written_is_read() {
    let signer = signer(Some(vec![0x30, 0, 0xff]));
    let bytes = written(&everything(), Some(&signer));
    let (manifest, found) = read_all(&bytes).unwrap();
    assert_eq!(found, everything());
    assert_eq!(manifest.notes, ["made by a test"]);
    assert_eq!((manifest.files, manifest.others), (12, 8));
    let signature = manifest.signature.unwrap();
    assert_eq!(signature.certificate, Some(vec![0x30, 0, 0xff]));
    let (manifest, _) = read_all(&written(&[], None)).unwrap();
    assert_eq!((manifest.files, manifest.signature), (0, None));
}

#[test]
fn no_changed_bit_and_no_cut_passes() {
    let bytes = written(&everything(), Some(&signer(None)));
    assert!(read_all(&bytes).is_ok());
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(read_all(&bad).is_err(), "bit {bit}");
    }
    let unsigned = written(&everything(), None).len();
    for length in 0..bytes.len() {
        // Without the last line it is one that nobody has signed, and says so.
        let cut = read_all(&bytes[..length]);
        assert_eq!(cut.is_ok(), length == unsigned, "{length}");
    }
    let more = [&bytes[..], b"\n"].concat();
    assert!(read_all(&more).is_err());
}

#[test]
fn a_changed_manifest_needs_another_signature() {
    let mut others = files();
    others[0] = Listed::File(Proved {
        sum: RootSum([9; 32]),
        ..proved(b"plain", 1)
    });
    let (mine, theirs) = (
        written(&files(), Some(&signer(None))),
        written(&others, None),
    );
    let signed = mine.split(|byte| *byte == b'\n').nth_back(1).unwrap();
    let forged = [&theirs[..], signed, b"\n"].concat();
    assert!(matches!(read_all(&forged), Err(ManifestError::Signature)));
}

#[test]
fn lines_that_lead_elsewhere_are_refused() {
    let of = |version, listed: Listed, from: &str, to: &str| {
        let whole = String::from_utf8(listed.to_line()).unwrap();
        let line = whole.trim_end().replace(from, to);
        Listed::parse(version, line.as_bytes())
    };
    let file = |path: &str| {
        let file = Listed::File(proved(b"x", 1));
        of(Version::Two, file, "dir/x", path)
    };
    let pipe = |path: &str| of(Version::Two, others()[1].clone(), "dir/pipe", path);
    let name = |path: &str| of(Version::Two, others()[5].clone(), "dir/\\x20", path);
    assert!(file("fine").is_ok() && pipe("fine").is_ok() && name("fine").is_ok());
    for bad in [
        "../up",
        "/etc/passwd",
        "a//b",
        "a/../b",
        ".",
        "",
        ".holdfast-transfer/x",
        "a\\x00",
    ] {
        for line in [&file as &dyn Fn(&str) -> _, &pipe, &name] {
            assert_eq!(line(bad), Err(LineError::Path), "{bad:?}");
        }
    }
    for bad in ["\\x61", "\\", "\\x1", "\\x0A", "\\n"] {
        for line in [&file as &dyn Fn(&str) -> _, &pipe, &name] {
            assert_eq!(line(bad), Err(LineError::Field("path")), "{bad:?}");
        }
    }
    // The field before the last is none with a space.
    assert_ne!(name("dir/ "), Ok(others()[5].clone()));
    assert!(of(Version::One, others()[1].clone(), "", "").is_err());
}

#[test]
fn fields_that_no_object_has_are_refused() {
    let parse = |line: &str| Listed::parse(Version::Two, line.as_bytes());
    let good = "link 0.000000000 777 0 0 - - target name";
    assert!(parse(good).is_ok());
    for (from, to) in [
        ("link", "file"),
        ("link", "Link"),
        ("777", "0777"),
        ("777", "10000"),
        ("777", "778"),
        ("777 0 0", "- - -"),
        ("0 0 -", "0 -1 -"),
        ("0 0 -", "0 4294967296 -"),
        ("- - target", "- 00 target"),
        ("target", ""),
        ("target", "\\x00"),
        ("target ", ""),
        ("0.000000000", "0.00000000"),
        (
            "link 0.000000000 777 0 0 - - target",
            "character 0.000000000 777 0 0 - - 1:03",
        ),
        (
            "link 0.000000000 777 0 0 - - target",
            "block 0.000000000 777 0 0 - - 1",
        ),
    ] {
        let bad = good.replacen(from, to, 1);
        assert!(parse(&bad).is_err(), "{bad}");
    }
    let long = good.replace("target", &"t".repeat(4096));
    assert!(parse(&long).is_err());
}

/// The longest line that there can be is read.
#[test]
fn the_longest_paths_have_room_in_a_line() {
    let mut path = TreePath::root();
    while path.as_bytes().len() + 256 <= crate::entry::PATH_MAX {
        path = path.join(&[b'\n'; 255]);
    }
    let longest = Listed::Name {
        first: path.clone(),
        path,
    };
    let line = longest.to_line();
    assert!(line.len() > 8 * 16_000 && line.len() <= LINE_BYTES_MAX);
    let bytes = written(std::slice::from_ref(&longest), None);
    assert_eq!(read_all(&bytes).unwrap().1, [longest]);
}

/// The bytes of a version do not change: manifests are kept for years.
#[test]
fn version_1_reads_as_it_always_did() {
    let golden = include_bytes!("../../tests/golden/manifest-1");
    let (manifest, found) = read_all(golden).unwrap();
    assert_eq!(found, without_carried(files()));
    assert_eq!((manifest.version, manifest.others), (Version::One, 0));
    assert!(manifest.signature.is_some());
}

#[test]
fn version_2_reads_and_writes_as_it_always_did() {
    let golden = include_bytes!("../../tests/golden/manifest-2");
    assert_eq!(read_all(golden).unwrap().1, everything());
    let signer = signer(Some(vec![0x30, 0, 0xff]));
    assert_eq!(written(&everything(), Some(&signer)), golden);
}

#[test]
fn a_later_version_is_named() {
    let later = b"holdfast-manifest 3\nanything";
    let Err(error) = read_all(later) else {
        panic!("it was read");
    };
    assert!(matches!(error, ManifestError::Version(3)), "{error}");
}
