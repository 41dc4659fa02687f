use super::*;
use crate::entry::{Time, TreePath};
use crate::level::Level;
use crate::root_sum::RootSum;
use std::os::fd::OwnedFd;

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
        path: TreePath::root().join(b"dir").join(name),
    }
}

fn files() -> Vec<Proved> {
    let names: [&[u8]; 6] = [
        b"plain",
        b" ",
        b"new\nline",
        b"back\\slash",
        b"\xff\xfe",
        b"\x7f",
    ];
    (1..)
        .zip(names)
        .map(|(number, name)| proved(name, number))
        .collect()
}

/// The same key each time, so that the bytes are the same.
fn signer(certificate: Option<Vec<u8>>) -> Signer {
    // PKCS #8 version 1 of an Ed25519 key (RFC 8410, 7).
    let head = [
        0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20,
    ];
    Signer::new(&[&head[..], &[42; 32]].concat(), certificate).unwrap()
}

fn written(files: &[Proved], signer: Option<&Signer>) -> Vec<u8> {
    let file = tempfile::tempfile().unwrap();
    let mut writer = Writer::begin(OwnedFd::from(file), &["made by a\ntest".to_owned()]);
    files.iter().for_each(|file| writer.add(file).unwrap());
    let (file, length) = writer.finish(signer).unwrap();
    let mut bytes = vec![0; length as usize];
    crate::content::read_range(&file, 0, &mut bytes, false).unwrap();
    bytes
}

fn read_all(bytes: &[u8]) -> Result<(Manifest, Vec<Proved>), ManifestError> {
    let mut found = Vec::new();
    let manifest = read(bytes, |proved| found.push(proved))?;
    Ok((manifest, found))
}

#[test]
fn what_is_written_is_read() {
    let signer = signer(Some(vec![0x30, 0, 0xff]));
    let bytes = written(&files(), Some(&signer));
    let (manifest, found) = read_all(&bytes).unwrap();
    assert_eq!(found, files());
    assert_eq!(manifest.notes, ["made by a test"]);
    assert_eq!(manifest.files, 6);
    let signature = manifest.signature.unwrap();
    assert_eq!(signature.certificate, Some(vec![0x30, 0, 0xff]));
    let (manifest, _) = read_all(&written(&[], None)).unwrap();
    assert_eq!((manifest.files, manifest.signature), (0, None));
}

#[test]
fn no_changed_bit_and_no_cut_passes() {
    let bytes = written(&files(), Some(&signer(None)));
    assert!(read_all(&bytes).is_ok());
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(read_all(&bad).is_err(), "bit {bit}");
    }
    let unsigned = written(&files(), None).len();
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
    others[0].sum = RootSum([9; 32]);
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
    let line = |path: &str| {
        let file = proved(b"x", 1).to_line();
        let whole = String::from_utf8(file).unwrap();
        Proved::parse(whole.trim_end().replace("dir/x", path).as_bytes())
    };
    assert!(line("fine").is_ok());
    for bad in [
        "../up",
        "/etc/passwd",
        "a//b",
        "a/../b",
        "",
        ".holdfast-transfer/x",
        "a\\x00",
    ] {
        assert_eq!(line(bad), Err(LineError::Path), "{bad:?}");
    }
    for bad in ["\\x61", "\\", "\\x1", "\\x0A", "\\n"] {
        assert_eq!(line(bad), Err(LineError::Field("path")), "{bad:?}");
    }
}

/// The bytes of version 1 do not change: manifests are kept for years.
#[test]
fn version_1_reads_and_writes_as_it_always_did() {
    let golden = include_bytes!("../../tests/golden/manifest-1");
    assert_eq!(read_all(golden).unwrap().1, files());
    let signer = signer(Some(vec![0x30, 0, 0xff]));
    assert_eq!(written(&files(), Some(&signer)), golden);
}
