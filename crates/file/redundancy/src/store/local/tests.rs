use super::{DATA, LocalStore, LocalStoreError, SYSTEM};
use crate::label::{Label, ObjectId, StoreIndex, StoreMask};
use crate::store::{Found, Make, Node, Store};
use mount::{AllocateFlags, Errno, Kind, NewObject, RenameFlags, SetAttr, SetTime, Timestamp};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

/// A store in a directory that goes away with it. Needs root, as every local store does.
struct Fixture {
    store: LocalStore,
    root: Node,
    place: tempfile::TempDir,
}

fn fixture() -> Fixture {
    let place = tempfile::tempdir().expect("a temporary directory");
    LocalStore::create_layout(place.path()).expect("lays out (the test needs root)");
    let store = LocalStore::open(place.path()).expect("opens");
    let root = store.root().expect("has a root");
    Fixture { store, root, place }
}

#[test]
fn a_node_of_a_store_that_was_replaced_on_its_file_system_is_stale() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let (here, away) = (place.path().join("store"), place.path().join("away"));
    let open = || {
        std::fs::create_dir(&here).expect("makes the directory");
        LocalStore::create_layout(&here).expect("lays out (the test needs root)");
        LocalStore::open(&here).expect("opens")
    };
    let old = open();
    let made = old
        .make(
            &old.root().expect("has a root"),
            OsStr::new("d"),
            &what(NewObject::Dir),
        )
        .expect("makes a directory");
    std::fs::rename(&here, &away).expect("moves the store away");
    let new = open();
    assert!(old.inspect(&made.node).is_ok());
    assert_eq!(new.inspect(&made.node).err(), Some(Errno::STALE));
    let inside = new.make(&made.node, OsStr::new("f"), &what(NewObject::File));
    assert_eq!(inside.err(), Some(Errno::STALE));
    // The same store, opened anew, knows its own.
    drop(old);
    let again = LocalStore::open(&away).expect("opens");
    assert!(again.inspect(&made.node).is_ok());
}

fn label(id: u64) -> Label {
    Label {
        id: ObjectId(id),
        home: StoreIndex(0),
        copies: StoreMask(1),
        set: 7,
    }
}

fn what(object: NewObject<'_>) -> Make<'_> {
    Make {
        object,
        mode: 0o666,
        umask: 0o022,
        uid: 0,
        gid: 0,
        label: label(9),
    }
}

impl Fixture {
    fn make(&self, name: &str, make: &Make<'_>) -> Found {
        self.store
            .make(&self.root, OsStr::new(name), make)
            .unwrap_or_else(|error| panic!("make {name}: {error}"))
    }
    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(DATA).join(name)
    }
    fn lookup(&self, name: &str) -> mount::Result<Found> {
        self.store.lookup(&self.root, OsStr::new(name))
    }
    fn list(&self, dir: &Node) -> BTreeMap<OsString, Kind> {
        let mut names = BTreeMap::new();
        self.store
            .list(dir, &mut |name, kind| {
                names.insert(name.to_os_string(), kind);
            })
            .expect("lists");
        names
    }
}

#[test]
fn every_type_is_made_with_its_label_and_found_again() {
    let f = fixture();
    let target = OsStr::from_bytes(b"../\xff\xfe target");
    let cases = [
        ("file", NewObject::File, Kind::File),
        ("dir", NewObject::Dir, Kind::Dir),
        ("link", NewObject::Symlink(target), Kind::Symlink),
        ("fifo", NewObject::Special(Kind::Fifo, 0), Kind::Fifo),
        ("socket", NewObject::Special(Kind::Socket, 0), Kind::Socket),
        (
            "char",
            NewObject::Special(Kind::CharDevice, 0x12345),
            Kind::CharDevice,
        ),
        (
            "block",
            NewObject::Special(Kind::BlockDevice, 0xfff7_0003),
            Kind::BlockDevice,
        ),
    ];
    for (id, (name, object, kind)) in (20..).zip(cases) {
        let make = Make {
            label: label(id),
            uid: 1234,
            gid: 4321,
            ..what(object)
        };
        let made = f.make(name, &make);
        assert_eq!(made.label, Some(label(id)), "{name}");
        assert_eq!(
            (made.attr.kind, made.attr.uid, made.attr.gid),
            (kind, 1234, 4321)
        );
        let found = f.lookup(name).expect("is found");
        assert_eq!(found.node, made.node, "{name}");
        assert_eq!(
            f.store.inspect(&made.node).expect("inspects").label,
            Some(label(id))
        );
        f.store
            .set_label(&made.node, &label(id + 100))
            .expect("relabels");
        assert_eq!(
            f.lookup(name).expect("is found").label,
            Some(label(id + 100))
        );
        if let NewObject::Special(_, device) = object {
            assert_eq!(made.attr.rdev, device, "{name}");
        }
        if matches!(object, NewObject::Symlink(_)) {
            assert_eq!(f.store.read_link(&made.node).expect("reads"), target);
        } else {
            assert_eq!(made.attr.perm & 0o777, 0o644, "{name}");
        }
        assert_eq!(
            f.store.make(&f.root, OsStr::new(name), &make).err(),
            Some(Errno::EXIST)
        );
    }
    let kinds: Vec<Kind> = f.list(&f.root).into_values().collect();
    assert_eq!(kinds.len(), cases.len());
    assert_eq!(
        f.store.device(),
        std::fs::metadata(f.path("")).expect("stat").dev()
    );
}

#[test]
fn set_id_bits_survive_the_change_of_owner() {
    let f = fixture();
    let make = Make {
        mode: 0o6755,
        uid: 1000,
        gid: 1000,
        ..what(NewObject::File)
    };
    let made = f.make("tool", &make);
    assert_eq!(made.attr.perm, 0o6755);
    assert_eq!(made.attr.uid, 1000);
}

#[test]
fn a_set_group_id_directory_hands_down_its_group() {
    let f = fixture();
    let make = Make {
        mode: 0o777,
        ..what(NewObject::Dir)
    };
    let dir = f.make("shared", &make).node;
    let change = SetAttr {
        gid: Some(777),
        mode: Some(0o2775),
        ..SetAttr::default()
    };
    f.store.set_attr(&dir, &change).expect("changes");
    let make = |object| Make {
        uid: 1000,
        gid: 1000,
        mode: 0o777,
        ..what(object)
    };
    let inner = |name, object| f.store.make(&dir, OsStr::new(name), &make(object));
    let file = inner("file", NewObject::File).expect("makes");
    assert_eq!(
        (file.attr.uid, file.attr.gid, file.attr.perm),
        (1000, 777, 0o755)
    );
    let below = inner("dir", NewObject::Dir).expect("makes");
    assert_eq!(
        (below.attr.uid, below.attr.gid, below.attr.perm),
        (1000, 777, 0o2755)
    );
}

/// `system.posix_acl_*`: version 2, then tag, permissions and id of each entry
/// (include/uapi/linux/posix_acl_xattr.h).
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&permissions.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

#[test]
fn a_default_acl_takes_the_place_of_the_umask() {
    let f = fixture();
    let dir = f.make("dir", &what(NewObject::Dir)).node;
    let none = u32::MAX;
    let value = acl(&[
        (1, 7, none),
        (2, 6, 1001),
        (4, 5, none),
        (0x10, 7, none),
        (0x20, 4, none),
    ]);
    let name = OsStr::new("system.posix_acl_default");
    f.store
        .set_xattr(&dir, name, &value, 0)
        .expect("sets the default ACL");
    let make = Make {
        umask: 0o077,
        ..what(NewObject::File)
    };
    let made = f
        .store
        .make(&dir, OsStr::new("file"), &make)
        .expect("makes");
    assert_eq!(made.attr.perm, 0o664, "the umask of 077 does not count");
    let access = OsStr::new("system.posix_acl_access");
    assert!(f.store.xattr(&made.node, access).is_ok());
}

#[test]
fn handles_survive_renames_and_end_with_the_last_name() {
    let f = fixture();
    let file = f.make("a", &what(NewObject::File)).node;
    let dir = f.make("dir", &what(NewObject::Dir)).node;
    let (a, b) = (OsStr::new("a"), OsStr::new("b"));
    f.store
        .rename(&f.root, a, &dir, b, RenameFlags::empty())
        .expect("renames");
    assert_eq!(f.store.lookup(&dir, b).expect("is found").node, file);
    f.store.link(&file, &f.root, a).expect("links");
    assert_eq!(f.store.attr(&file).expect("stat").nlink, 2);
    f.store.unlink(&dir, b).expect("unlinks");
    let open = f.store.open(&file, true).expect("opens");
    f.store.unlink(&f.root, a).expect("unlinks");
    open.write_at(0, b"still here")
        .expect("writes to the unlinked file");
    assert_eq!(open.attr().expect("stat").nlink, 0);
    drop(open);
    assert_eq!(f.store.attr(&file).err(), Some(Errno::STALE));
    assert_eq!(f.store.parent(&dir).expect("parent"), f.root);
    assert_eq!(f.store.parent(&f.root).expect("parent"), f.root);
    f.store
        .remove_dir(&f.root, OsStr::new("dir"))
        .expect("removes");
    assert_eq!(f.store.lookup(&dir, a).err(), Some(Errno::STALE));
}

#[test]
fn rename_flags_are_honoured() {
    let f = fixture();
    let (a, b) = (OsStr::new("a"), OsStr::new("b"));
    let first = f.make("a", &what(NewObject::File)).node;
    let second = f.make("b", &what(NewObject::Dir)).node;
    let rename = |flags| f.store.rename(&f.root, a, &f.root, b, flags);
    assert_eq!(rename(RenameFlags::NOREPLACE).err(), Some(Errno::EXIST));
    rename(RenameFlags::EXCHANGE).expect("exchanges");
    assert_eq!(f.lookup("b").expect("is found").node, first);
    assert_eq!(f.lookup("a").expect("is found").node, second);
}

#[test]
fn attributes_are_set_exactly() {
    let f = fixture();
    let node = f.make("a", &what(NewObject::File)).node;
    let before_1970 = Timestamp {
        sec: -2,
        nsec: 800_000_001,
    };
    let change = SetAttr {
        mode: Some(0o4711),
        uid: Some(3),
        gid: Some(4),
        size: Some(12345),
        atime: Some(SetTime::To(before_1970)),
        mtime: Some(SetTime::Now),
    };
    f.store.set_attr(&node, &change).expect("changes");
    let attr = f.store.attr(&node).expect("stat");
    assert_eq!(
        (attr.perm, attr.uid, attr.gid, attr.size),
        (0o4711, 3, 4, 12345)
    );
    assert_eq!(attr.atime, before_1970);
    let link = f.make("l", &what(NewObject::Symlink(OsStr::new("a")))).node;
    let change = SetAttr {
        uid: Some(5),
        mtime: Some(SetTime::To(before_1970)),
        ..SetAttr::default()
    };
    f.store
        .set_attr(&link, &change)
        .expect("changes the link itself");
    let attr = f.store.attr(&link).expect("stat");
    assert_eq!((attr.uid, attr.mtime), (5, before_1970));
    assert_eq!(f.store.attr(&node).expect("stat").uid, 3);
    f.store
        .open(&node, true)
        .expect("opens")
        .set_attr(&SetAttr {
            mode: Some(0o600),
            ..SetAttr::default()
        })
        .expect("changes");
    assert_eq!(f.store.attr(&node).expect("stat").perm, 0o600);
}

#[test]
fn the_label_is_hidden_from_users() {
    let f = fixture();
    let node = f.make("a", &what(NewObject::File)).node;
    let (ours, user) = (OsStr::new("trusted.holdfast"), OsStr::new("user.note"));
    f.store.set_xattr(&node, user, b"x", 1).expect("sets");
    assert_eq!(
        f.store.set_xattr(&node, user, b"x", 1).err(),
        Some(Errno::EXIST)
    );
    assert_eq!(f.store.list_xattr(&node).expect("lists"), b"user.note\0");
    assert_eq!(f.store.xattr(&node, ours).err(), Some(Errno::NODATA));
    assert_eq!(
        f.store.set_xattr(&node, ours, b"x", 0).err(),
        Some(Errno::PERM)
    );
    assert_eq!(f.store.remove_xattr(&node, ours).err(), Some(Errno::PERM));
    let long = vec![5; 3000];
    f.store.set_xattr(&node, user, &long, 2).expect("replaces");
    assert_eq!(f.store.xattr(&node, user).expect("reads"), long);
    f.store.remove_xattr(&node, user).expect("removes");
    assert_eq!(f.store.xattr(&node, user).err(), Some(Errno::NODATA));
}

#[test]
fn a_broken_label_reads_as_none() {
    let f = fixture();
    f.make("a", &what(NewObject::File));
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(f.path("a"), "trusted.holdfast", &[1; 100], flags).expect("sets");
    assert_eq!(f.lookup("a").expect("is found").label, None);
    std::fs::write(f.path("b"), b"").expect("writes");
    assert_eq!(f.lookup("b").expect("is found").label, None);
}

#[test]
fn content_is_read_written_allocated_and_sought() {
    let f = fixture();
    let node = f.make("a", &what(NewObject::File)).node;
    let file = f.store.open(&node, true).expect("opens");
    file.write_at(1 << 20, b"data").expect("writes");
    let mut buffer = [9; 8];
    assert_eq!(file.read_at(1 << 20, &mut buffer).expect("reads"), 4);
    assert_eq!(&buffer[..4], b"data");
    assert_eq!(file.seek(0, false).expect("seeks"), 1 << 20);
    assert_eq!(file.seek(0, true).expect("seeks"), 0);
    assert_eq!(file.seek(2 << 20, false).err(), Some(Errno::NXIO));
    file.allocate(0, 1 << 20, AllocateFlags::empty())
        .expect("allocates");
    let punch = AllocateFlags::PUNCH_HOLE | AllocateFlags::KEEP_SIZE;
    file.allocate(1 << 20, 4096, punch).expect("punches");
    assert_eq!(file.read_at(1 << 20, &mut buffer[..4]).expect("reads"), 4);
    assert_eq!(&buffer[..4], &[0; 4]);
    file.set_len(10).expect("truncates");
    file.sync(true).expect("syncs");
    file.sync(false).expect("syncs");
    file.forget_cache(0, 0);
    assert_eq!(file.attr().expect("stat").size, 10);
    assert_eq!(file.write_at(u64::MAX, b"x").err(), Some(Errno::INVAL));
    let read_only = f.store.open(&node, false).expect("opens");
    assert_eq!(read_only.write_at(0, b"x").err(), Some(Errno::BADF));
    assert_eq!(f.store.open(&f.root, false).err(), Some(Errno::ISDIR));
    f.store.sync_dir(&f.root).expect("syncs");
    f.store.sync_all().expect("syncs");
    f.store.system().replace("x", b"1").expect("writes");
    assert!(f.path("../.holdfast/x").exists());
    assert!(f.store.space().expect("space").total_bytes > 0);
}

#[test]
fn a_pipe_does_not_block_an_open() {
    let f = fixture();
    let node = f.make("p", &what(NewObject::Special(Kind::Fifo, 0))).node;
    assert_eq!(f.store.open(&node, false).err(), Some(Errno::INVAL));
}

#[test]
fn names_are_any_bytes_but_never_paths() {
    let f = fixture();
    let name = OsString::from_vec((1..=255).filter(|b| *b != b'/').collect());
    f.store
        .make(&f.root, &name, &what(NewObject::File))
        .expect("makes");
    assert!(f.list(&f.root).contains_key(&name));
    for name in ["a/b", "../x", "a\0b"] {
        assert_eq!(f.lookup(name).err(), Some(Errno::INVAL), "{name:?}");
    }
    assert_eq!(f.lookup("").err(), Some(Errno::NOENT));
    let long = "x".repeat(256);
    assert_eq!(f.lookup(&long).err(), Some(Errno::NAMETOOLONG));
}

#[test]
fn what_is_mounted_inside_is_another_device() {
    let f = fixture();
    std::fs::create_dir(f.path("m")).expect("makes");
    rustix::mount::mount(
        "none",
        f.path("m"),
        c"tmpfs",
        rustix::mount::MountFlags::empty(),
        None,
    )
    .expect("mounts (the test needs root)");
    let found = f.lookup("m");
    rustix::mount::unmount(f.path("m"), rustix::mount::UnmountFlags::DETACH).expect("unmounts");
    assert_eq!(found.err(), Some(Errno::XDEV));
}

#[test]
fn a_place_that_is_no_store_is_refused_with_advice() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let open = |path: &std::path::Path| LocalStore::open(path).err();
    let file = place.path().join("file");
    std::fs::write(&file, b"").expect("writes");
    assert!(matches!(
        open(&file),
        Some(LocalStoreError::NotDirectory { .. })
    ));
    let missing = open(&place.path().join("none"));
    assert!(matches!(missing, Some(LocalStoreError::Missing { .. })));
    let bare = open(place.path());
    assert!(matches!(
        bare,
        Some(LocalStoreError::NotLaidOut { missing: DATA, .. })
    ));
    LocalStore::create_layout(place.path()).expect("lays out");
    LocalStore::create_layout(place.path()).expect("is content with what is there");
    let mode = std::fs::metadata(place.path().join(SYSTEM))
        .expect("stat")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}

mod directories;
