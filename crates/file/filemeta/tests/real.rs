//! Stores on the file systems that they are for.

use env::handle::Handle;
use env::real::RealFiles;
use holdfast_filemeta::{Finding, MetaError, Options, Places, Store, StoreId, Tag, Unlinked};
use rustix::fs::XattrFlags;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

#[path = "support/mounts.rs"]
mod mounts;
use mounts::{Mounted, run, touch};

const TABLE: Tag = Tag::new(1).unwrap();
const SHARED: Tag = Tag::new(2).unwrap();
const TINY: Tag = Tag::new(3).unwrap();
const KINDS: [&str; 2] = ["ext4", "xfs"];
const FILE_SYSTEM_BYTES: u64 = 400 << 20;

fn create(root: &Path) -> Store {
    let places = Places::real(&root.join("meta")).unwrap();
    Store::create(&places, StoreId(7), c"trusted.hfm", Options::default()).unwrap()
}

fn open(root: &Path) -> Store {
    let places = Places::real(&root.join("meta")).unwrap();
    let opened = Store::open(&places, Some(StoreId(7)), Options::default());
    opened.unwrap().store
}

fn handle(root: &Path, name: &str) -> Handle {
    let file = File::open(root.join(name)).unwrap();
    RealFiles::open(root)
        .unwrap()
        .handle_of(file.as_fd())
        .unwrap()
}

fn put(store: &Store, owner: &Handle, content: &[u8]) {
    let mut request = store.request();
    request.put(owner, TABLE, content).unwrap();
    request.commit().unwrap();
}

#[test]
fn metadata_follows_its_file_and_nobody_else_gets_it() {
    for kind in KINDS {
        let mounted = Mounted::new(kind, FILE_SYSTEM_BYTES);
        let root = mounted.path();
        let store = create(&root);
        touch(&root.join("a"));
        let owner = handle(&root, "a");
        put(&store, &owner, b"a's");

        std::fs::rename(root.join("a"), root.join("b")).unwrap();
        std::fs::hard_link(root.join("b"), root.join("c")).unwrap();
        assert_eq!(handle(&root, "b"), owner);
        assert_eq!(store.get(&handle(&root, "c"), TABLE).unwrap(), b"a's");

        let copied = Command::new("cp")
            .args(["-a", "--preserve=xattr"])
            .args([root.join("b"), root.join("copy")])
            .status()
            .unwrap();
        assert!(copied.success());
        let copy = handle(&root, "copy");
        match store.get(&copy, TABLE) {
            Err(MetaError::Foreign { owner: other }) => assert_eq!(other, owner),
            other => panic!("{kind}: {other:?}"),
        }
        let mut request = store.request();
        request.reset(&copy);
        request.commit().unwrap();
        assert!(matches!(
            store.get(&copy, TABLE),
            Err(MetaError::NoSuchEntry)
        ));
        assert!(store.check().unwrap().findings.is_empty());
    }
}

#[test]
fn a_used_inode_number_is_a_file_without_metadata() {
    let mut recycled = 0;
    for kind in KINDS {
        let mounted = Mounted::new(kind, FILE_SYSTEM_BYTES);
        let root = mounted.path();
        let store = create(&root);
        touch(&root.join("a"));
        let owner = handle(&root, "a");
        put(&store, &owner, b"a's");
        let number = std::fs::metadata(root.join("a")).unwrap().ino();
        std::fs::remove_file(root.join("a")).unwrap();
        assert!(matches!(
            store.get(&owner, TABLE),
            Err(MetaError::OwnerGone)
        ));
        for attempt in 0..200 {
            let name = format!("n{attempt}");
            touch(&root.join(&name));
            let next = handle(&root, &name);
            assert!(matches!(
                store.get(&next, TABLE),
                Err(MetaError::NoSuchEntry)
            ));
            if std::fs::metadata(root.join(&name)).unwrap().ino() == number {
                recycled += 1;
                assert_ne!(next, owner);
                break;
            }
        }
        let findings = store.check().unwrap().findings;
        assert!(
            matches!(findings[..], [Finding::OwnerGone { .. }]),
            "{findings:?}"
        );
        assert_eq!(store.collect_garbage(Unlinked::Keep).unwrap().objects, 1);
        assert!(store.check().unwrap().findings.is_empty());
    }
    assert!(recycled > 0, "no inode number was used again");
}

#[test]
fn everything_is_there_after_an_unmount_without_a_close() {
    for kind in KINDS {
        let mounted = Mounted::new(kind, FILE_SYSTEM_BYTES);
        let root = mounted.path();
        let store = create(&root);
        let table: Vec<u8> = (0..1 << 20).map(|at: u32| (at / 3) as u8).collect();
        for name in ["a", "b"] {
            touch(&root.join(name));
            put(&store, &handle(&root, name), &table);
        }
        let owner = handle(&root, "a");
        let mut request = store.request();
        request.patch(&owner, TABLE, 700_001, b"sixteen bytes on");
        request.share(&owner, SHARED, b"descriptor");
        request.set_value(&owner, TINY, b"tiny");
        request.commit().unwrap();
        drop(store);
        mounted.remount();
        let store = open(&root);
        assert_eq!(handle(&root, "a"), owner, "handles outlive a mount");
        let mut expected = table.clone();
        expected[700_001..700_017].copy_from_slice(b"sixteen bytes on");
        assert!(store.get(&owner, TABLE).unwrap() == expected, "{kind}");
        assert!(store.get(&handle(&root, "b"), TABLE).unwrap() == table);
        assert_eq!(store.get(&owner, SHARED).unwrap(), b"descriptor");
        assert_eq!(store.value(&owner, TINY).unwrap(), b"tiny");
        assert!(store.check().unwrap().findings.is_empty());
    }
}

/// docs/formats/filemeta.md: 12 bytes fit into an ext4 inode beside the label of a copy.
#[test]
fn a_linked_object_costs_the_owner_no_block_on_ext4() {
    let mounted = Mounted::new("ext4", FILE_SYSTEM_BYTES);
    let root = mounted.path();
    let store = create(&root);
    let blocks = |name: &str| std::fs::metadata(root.join(name)).unwrap().blocks();
    touch(&root.join("a"));
    let file = File::open(root.join("a")).unwrap();
    rustix::fs::fsetxattr(&file, c"trusted.holdfast", &[1; 32], XattrFlags::empty()).unwrap();
    let owner = handle(&root, "a");
    put(&store, &owner, b"linked");
    file.sync_all().unwrap();
    assert_eq!(blocks("a"), 0, "the attribute is in the inode");
    let mut request = store.request();
    request.set_value(&owner, TINY, b"one more");
    request.commit().unwrap();
    file.sync_all().unwrap();
    assert_ne!(blocks("a"), 0, "this test can fail");
}

#[test]
fn a_full_inode_is_a_clear_error() {
    let mounted = Mounted::new("ext4", FILE_SYSTEM_BYTES);
    let root = mounted.path();
    let store = create(&root);
    touch(&root.join("a"));
    let file = File::open(root.join("a")).unwrap();
    // ext4 has the inode's room and one block for all attributes of a file.
    let mut filled = 0;
    for index in 0..4096u32 {
        let name = std::ffi::CString::new(format!("trusted.{index:04}")).unwrap();
        if rustix::fs::fsetxattr(&file, &name, &[1; 4], XattrFlags::empty()).is_err() {
            break;
        }
        filled += 1;
    }
    assert!(filled > 20);
    let owner = handle(&root, "a");
    let mut request = store.request();
    request.put(&owner, TABLE, b"linked").unwrap();
    let error = request.commit().unwrap_err();
    assert!(
        matches!(error, MetaError::NoAttributeSpace { .. }),
        "{error}"
    );
    rustix::fs::fremovexattr(&file, c"trusted.0001").unwrap();
    rustix::fs::fremovexattr(&file, c"trusted.0002").unwrap();
    put(&store, &owner, b"linked");
    assert_eq!(store.get(&owner, TABLE).unwrap(), b"linked");
    let report = store.collect_garbage(Unlinked::Keep).unwrap();
    assert_eq!(report.left, 0);
}

#[test]
fn a_full_file_system_is_a_clear_error_and_loses_nothing() {
    let mounted = Mounted::new("ext4", 40 << 20);
    let root = mounted.path();
    let small = Options {
        segment_bytes: 1 << 20,
        journal_bytes: 2 << 20,
    };
    let places = Places::real(&root.join("meta")).unwrap();
    let store = Store::create(&places, StoreId(7), c"trusted.hfm", small).unwrap();
    let mut written = 0;
    let error = loop {
        let name = format!("f{written}");
        touch(&root.join(&name));
        let owner = handle(&root, &name);
        let mut request = store.request();
        let content = vec![written as u8; 30_000];
        request.put(&owner, TABLE, &content).unwrap();
        match request.commit() {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 5000, "it never fills");
    };
    assert_eq!(error.kind(), env::errno::ErrorKind::NoSpace, "{error}");
    for index in 0..written {
        let owner = handle(&root, &format!("f{index}"));
        let content = store.get(&owner, TABLE).unwrap();
        assert!(content == vec![index as u8; 30_000], "{index}");
    }
    let mut request = store.request();
    request
        .forget(&handle(&root, "f0"))
        .forget(&handle(&root, "f1"));
    request.commit().expect("to remove needs no room");
    assert!(store.check().unwrap().is_sound());
}

/// An overlay, which has no file handles, unmounted when dropped.
struct Overlay(tempfile::TempDir);

impl Overlay {
    fn new() -> Overlay {
        // Its layers on a tmpfs, as an overlay may not lie on another one.
        let home = tempfile::tempdir_in("/dev/shm").unwrap();
        let [lower, upper, work, mount] = ["lower", "upper", "work", "mount"].map(|name| {
            let path = home.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path.to_str().unwrap().to_owned()
        });
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        let overlay = Overlay(home);
        run(
            "mount",
            &["-t", "overlay", "overlay", "-o", &options, &mount],
        );
        overlay
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        // A test that failed half way may not have mounted anything.
        let path = self.0.path().join("mount");
        let _ = Command::new("umount").arg(path).output();
    }
}

#[test]
fn a_file_system_without_handles_is_refused() {
    let overlay = Overlay::new();
    match Places::real(&overlay.0.path().join("mount/meta")).map(drop) {
        Err(error @ MetaError::NoHandles { .. }) => {
            assert!(error.to_string().contains("file handles"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_immutable_file_refuses_before_the_journal_has_anything() {
    let chattr = |flag: &str, path: &Path| {
        let status = Command::new("chattr").arg(flag).arg(path).status();
        assert!(status.unwrap().success(), "chattr {flag}");
    };
    for kind in KINDS {
        let mounted = Mounted::new(kind, FILE_SYSTEM_BYTES);
        let root = mounted.path();
        let store = create(&root);
        let [fixed, other] = ["fixed", "other"].map(|name| {
            touch(&root.join(name));
            handle(&root, name)
        });
        for owner in [&fixed, &other] {
            let mut request = store.request();
            request.set_value(owner, TINY, b"old");
            request.commit().unwrap();
        }
        chattr("+i", &root.join("fixed"));
        let both = || {
            let mut request = store.request();
            request
                .set_value(&other, TINY, b"new")
                .set_value(&fixed, TINY, b"new");
            request.commit()
        };
        let error = both().unwrap_err();
        assert!(matches!(error, MetaError::Io { .. }), "{error}");
        let mut request = store.request();
        request.forget(&other).forget(&fixed);
        assert!(request.commit().is_err());
        assert_eq!(store.value(&other, TINY).unwrap(), b"old");
        chattr("-i", &root.join("fixed"));
        both().unwrap();
        assert_eq!(store.value(&fixed, TINY).unwrap(), b"new");
    }
}

#[test]
fn threads_share_the_store_and_its_commits() {
    let root = tempfile::tempdir().unwrap();
    let places = Places::real(&root.path().join("meta")).unwrap();
    let options = Options {
        segment_bytes: 1 << 20,
        journal_bytes: 1 << 20,
    };
    let store = Store::create(&places, StoreId(7), c"trusted.hfm", options).unwrap();
    touch(&root.path().join("a"));
    let owner = handle(root.path(), "a");
    put(&store, &owner, &[0; 8 * 1000]);
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            let (store, owner) = (&store, &owner);
            scope.spawn(move || {
                for step in 0..40u64 {
                    let at = u64::from(thread) * 1000 + step * 16;
                    let mut request = store.request();
                    request.patch(owner, TABLE, at, &[thread + 1; 16]);
                    request.share(owner, Tag::new(10 + thread).unwrap(), &[step as u8; 30]);
                    if step % 3 == 0 {
                        request.submit().unwrap();
                    } else {
                        request.commit().unwrap();
                    }
                    let mut back = [0; 16];
                    store.read(owner, TABLE, at, &mut back).unwrap();
                    assert_eq!(back, [thread + 1; 16]);
                }
            });
        }
    });
    drop(store);
    let store = Store::open(&places, None, options).unwrap().store;
    let table = store.get(&owner, TABLE).unwrap();
    for (thread, part) in (1..).zip(table.chunks(1000)) {
        // The last step was committed, or submitted and committed by another thread later, or cut.
        let whole = part[..39 * 16].iter().all(|byte| *byte == thread);
        assert!(
            whole && part[640..].iter().all(|byte| *byte == 0),
            "{thread}"
        );
    }
    assert!(store.check().unwrap().findings.is_empty());
}
