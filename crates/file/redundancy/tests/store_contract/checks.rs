//! What every store must do, as checks that panic where it does not. Each check works in a
//! fresh directory of its own.

use holdfast_redundancy::label::{Label, ObjectId, StoreIndex, StoreMask};
use holdfast_redundancy::store::{Found, Make, Node, Store};
use mount::{AllocateFlags, Errno, Kind, NewObject, RenameFlags, SetAttr, SetTime, Timestamp};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

/// A check: its name and what it does with a store and a directory.
pub(crate) type Check = (&'static str, fn(&Arc<dyn Store>, &Node));

/// All checks.
pub(crate) const CHECKS: &[Check] = &[
    (
        "a made object is found with its label and attributes",
        made_is_found,
    ),
    ("the set-group-id bit passes on the group", set_group_id),
    (
        "names that are taken, missing or wrong are refused",
        wrong_names,
    ),
    ("a node survives renames", node_survives_rename),
    ("a node without a name is stale", node_goes_stale),
    ("an open file outlives its last name", open_outlives_name),
    ("rename replaces, refuses and exchanges", rename_rules),
    (
        "directories count their links and know their parents",
        directory_links,
    ),
    ("hard links share one object", hard_links),
    ("content is sparse, and cut and grown with zeros", content),
    ("holes are punched and found", holes),
    ("attributes change and times move", attributes),
    (
        "extended attributes obey their flags and hide the label",
        xattrs,
    ),
    (
        "symbolic links and special files keep what they are",
        special,
    ),
    ("a listing has every entry once", listing),
    ("labels are replaced", labels),
    ("objects go aside and come back", aside),
    ("syncs and questions of the store succeed", store_calls),
];

pub(crate) fn label(id: u64) -> Label {
    Label {
        id: ObjectId(id),
        home: StoreIndex(1),
        copies: StoreMask(0b110),
        set: 7,
    }
}

fn name(name: &str) -> &OsStr {
    OsStr::new(name)
}

pub(crate) fn make(
    store: &Arc<dyn Store>,
    dir: &Node,
    called: &str,
    object: NewObject<'_>,
) -> Found {
    let make = Make {
        object,
        mode: 0o644,
        umask: 0o022,
        uid: 10,
        gid: 20,
        label: label(9),
    };
    store.make(dir, name(called), &make).expect("make")
}

fn file(store: &Arc<dyn Store>, dir: &Node, called: &str) -> Node {
    make(store, dir, called, NewObject::File).node
}

fn directory(store: &Arc<dyn Store>, dir: &Node, called: &str) -> Node {
    make(store, dir, called, NewObject::Dir).node
}

fn made_is_found(store: &Arc<dyn Store>, dir: &Node) {
    let make = Make {
        object: NewObject::File,
        mode: 0o6666,
        umask: 0o027,
        uid: 10,
        gid: 20,
        label: label(77),
    };
    let made = store.make(dir, name("a"), &make).expect("make");
    let found = store.lookup(dir, name("a")).expect("lookup");
    let inspected = store.inspect(&found.node).expect("inspect");
    for each in [&made, &found, &inspected] {
        assert_eq!(each.label, Some(label(77)));
        assert_eq!(each.attr.kind, Kind::File);
        assert_eq!(
            each.attr.perm, 0o6640,
            "permission bits are {:o}",
            each.attr.perm
        );
        assert_eq!((each.attr.uid, each.attr.gid), (10, 20));
        assert_eq!((each.attr.size, each.attr.nlink), (0, 1));
    }
    assert_eq!(store.attr(&made.node).expect("attr").perm, 0o6640);
    assert_eq!(made.node, found.node, "one object has one node");
}

fn set_group_id(store: &Arc<dyn Store>, dir: &Node) {
    let parent = directory(store, dir, "d");
    let change = SetAttr {
        mode: Some(0o2755),
        gid: Some(33),
        ..SetAttr::default()
    };
    store.set_attr(&parent, &change).expect("set_attr");
    let child = make(store, &parent, "f", NewObject::File);
    assert_eq!(child.attr.gid, 33);
    let below = make(store, &parent, "d", NewObject::Dir);
    assert_eq!((below.attr.gid, below.attr.perm & 0o2000), (33, 0o2000));
}

fn wrong_names(store: &Arc<dyn Store>, dir: &Node) {
    let node = file(store, dir, "a");
    let again = Make {
        object: NewObject::Dir,
        mode: 0o755,
        umask: 0,
        uid: 0,
        gid: 0,
        label: label(1),
    };
    let long = "x".repeat(256);
    assert_eq!(
        store.make(dir, name("a"), &again).unwrap_err(),
        Errno::EXIST
    );
    assert_eq!(
        store.make(dir, name(&long), &again).unwrap_err(),
        Errno::NAMETOOLONG
    );
    assert_eq!(store.lookup(dir, name("b")).unwrap_err(), Errno::NOENT);
    assert_eq!(store.lookup(&node, name("b")).unwrap_err(), Errno::NOTDIR);
    assert_eq!(
        store.lookup(dir, name(&long)).unwrap_err(),
        Errno::NAMETOOLONG
    );
    assert_eq!(store.unlink(dir, name("b")).unwrap_err(), Errno::NOENT);
    assert_eq!(store.remove_dir(dir, name("a")).unwrap_err(), Errno::NOTDIR);
    directory(store, dir, "d");
    assert_eq!(store.unlink(dir, name("d")).unwrap_err(), Errno::ISDIR);
    assert!(store.make(dir, name(&"y".repeat(255)), &again).is_ok());
}

fn node_survives_rename(store: &Arc<dyn Store>, dir: &Node) {
    let (from, to) = (directory(store, dir, "from"), directory(store, dir, "to"));
    let node = file(store, &from, "a");
    store
        .rename(&from, name("a"), &to, name("b"), RenameFlags::empty())
        .expect("rename");
    assert_eq!(store.inspect(&node).expect("inspect").label, Some(label(9)));
    assert_eq!(store.lookup(&to, name("b")).expect("lookup").node, node);
    assert_eq!(store.lookup(&from, name("a")).unwrap_err(), Errno::NOENT);
    store
        .rename(dir, name("to"), &from, name("in"), RenameFlags::empty())
        .expect("rename");
    assert_eq!(
        store
            .lookup(&to, name("b"))
            .expect("lookup by the moved directory")
            .node,
        node
    );
}

fn node_goes_stale(store: &Arc<dyn Store>, dir: &Node) {
    let node = file(store, dir, "a");
    store.link(&node, dir, name("b")).expect("link");
    store.unlink(dir, name("a")).expect("unlink");
    assert_eq!(store.attr(&node).expect("one name is left").nlink, 1);
    store.unlink(dir, name("b")).expect("unlink");
    assert_eq!(store.attr(&node).unwrap_err(), Errno::STALE);
    assert_eq!(store.inspect(&node).unwrap_err(), Errno::STALE);
    assert!(matches!(store.open(&node, false), Err(Errno::STALE)));
    let below = directory(store, dir, "d");
    store.remove_dir(dir, name("d")).expect("remove_dir");
    assert_eq!(store.attr(&below).unwrap_err(), Errno::STALE);
    // A successor of the same name is another object.
    let next = file(store, dir, "a");
    assert_ne!(next, node);
}

fn open_outlives_name(store: &Arc<dyn Store>, dir: &Node) {
    let node = file(store, dir, "a");
    let open = store.open(&node, true).expect("open");
    open.write_at(0, b"before").expect("write");
    store.unlink(dir, name("a")).expect("unlink");
    open.write_at(6, b" and after").expect("write");
    let mut buffer = [0; 32];
    assert_eq!(open.read_at(0, &mut buffer), Ok(16));
    assert_eq!(&buffer[..16], b"before and after");
    assert_eq!(open.attr().expect("attr").nlink, 0);
    open.set_attr(&SetAttr {
        mode: Some(0o600),
        ..SetAttr::default()
    })
    .expect("set_attr");
    open.sync(false).expect("sync");
    assert_eq!(store.lookup(dir, name("a")).unwrap_err(), Errno::NOENT);
}

fn rename_rules(store: &Arc<dyn Store>, dir: &Node) {
    let none = RenameFlags::empty();
    let rename = |from: &str, to: &str, flags| store.rename(dir, name(from), dir, name(to), flags);
    let at = |called: &str| store.lookup(dir, name(called)).map(|found| found.node);
    let (a, b) = (file(store, dir, "a"), file(store, dir, "b"));
    assert_eq!(rename("a", "b", RenameFlags::NOREPLACE), Err(Errno::EXIST));
    assert_eq!(rename("x", "b", none), Err(Errno::NOENT));
    rename("a", "b", RenameFlags::EXCHANGE).expect("exchange");
    assert_eq!((at("a"), at("b")), (Ok(b.clone()), Ok(a.clone())));
    assert_eq!(rename("a", "x", RenameFlags::EXCHANGE), Err(Errno::NOENT));
    rename("b", "a", none).expect("replace");
    assert_eq!((at("a"), at("b")), (Ok(a.clone()), Err(Errno::NOENT)));
    assert_eq!(
        store.attr(&b).unwrap_err(),
        Errno::STALE,
        "the replaced object is gone"
    );
    // Two names of one object: nothing happens.
    store.link(&a, dir, name("l")).expect("link");
    rename("a", "l", none).expect("same object");
    assert_eq!((at("a"), at("l")), (Ok(a.clone()), Ok(a.clone())));
    // Directories.
    let (d, e) = (directory(store, dir, "d"), directory(store, dir, "e"));
    assert_eq!(rename("a", "d", none), Err(Errno::ISDIR));
    assert_eq!(rename("d", "a", none), Err(Errno::NOTDIR));
    file(store, &e, "f");
    assert_eq!(rename("d", "e", none), Err(Errno::NOTEMPTY));
    let into_itself = store.rename(dir, name("e"), &e, name("x"), none);
    assert_eq!(into_itself, Err(Errno::INVAL));
    rename("e", "d", none).expect("an empty directory is replaced");
    assert_eq!((at("d"), at("e")), (Ok(e), Err(Errno::NOENT)));
    assert_eq!(store.attr(&d).unwrap_err(), Errno::STALE);
    // A directory and a file change places.
    rename("a", "d", RenameFlags::EXCHANGE).expect("exchange of two types");
    assert_eq!(at("d"), Ok(a));
}

fn directory_links(store: &Arc<dyn Store>, dir: &Node) {
    let nlink = |node: &Node| store.attr(node).expect("attr").nlink;
    let (a, b) = (directory(store, dir, "a"), directory(store, dir, "b"));
    assert_eq!((nlink(&a), store.parent(&a)), (2, Ok(dir.clone())));
    let c = directory(store, &a, "c");
    assert_eq!((nlink(&a), nlink(&c)), (3, 2));
    store
        .rename(&a, name("c"), &b, name("c"), RenameFlags::empty())
        .expect("rename");
    assert_eq!((nlink(&a), nlink(&b)), (2, 3));
    assert_eq!(store.parent(&c), Ok(b.clone()));
    assert_eq!(store.remove_dir(dir, name("b")), Err(Errno::NOTEMPTY));
    store.remove_dir(&b, name("c")).expect("remove_dir");
    assert_eq!(nlink(&b), 2);
    let root = store.root().expect("root");
    assert_eq!(store.parent(&root), Ok(root), "the root is its own parent");
}

fn hard_links(store: &Arc<dyn Store>, dir: &Node) {
    let a = file(store, dir, "a");
    let other = directory(store, dir, "d");
    store.link(&a, &other, name("b")).expect("link");
    assert_eq!(store.lookup(&other, name("b")).expect("lookup").node, a);
    assert_eq!(store.attr(&a).expect("attr").nlink, 2);
    assert_eq!(store.link(&a, dir, name("d")), Err(Errno::EXIST));
    assert_eq!(store.link(&other, dir, name("e")), Err(Errno::PERM));
    store
        .open(&a, true)
        .expect("open")
        .write_at(0, b"shared")
        .expect("write");
    let found = store.lookup(&other, name("b")).expect("lookup");
    assert_eq!(found.attr.size, 6);
}

fn content(store: &Arc<dyn Store>, dir: &Node) {
    let node = file(store, dir, "a");
    let open = store.open(&node, true).expect("open");
    open.write_at(10_000, b"far").expect("write");
    let mut all = vec![1; 20_000];
    assert_eq!(open.read_at(0, &mut all), Ok(10_003));
    assert!(
        all[..10_000].iter().all(|byte| *byte == 0),
        "a gap reads as zeros"
    );
    assert_eq!(&all[10_000..10_003], b"far");
    assert_eq!(open.read_at(10_003, &mut all), Ok(0));
    assert_eq!(open.read_at(10_001, &mut all[..1]), Ok(1));
    open.set_len(10_001).expect("cut");
    open.set_len(10_010).expect("grow");
    assert_eq!(open.read_at(10_000, &mut all), Ok(10));
    assert_eq!(
        &all[..10],
        b"f\0\0\0\0\0\0\0\0\0",
        "what was cut off does not come back"
    );
    assert_eq!(store.attr(&node).expect("attr").size, 10_010);
    store
        .set_attr(
            &node,
            &SetAttr {
                size: Some(3),
                ..SetAttr::default()
            },
        )
        .expect("set_attr");
    assert_eq!(open.attr().expect("attr").size, 3);
    let second = store.open(&node, false).expect("open again");
    open.write_at(0, b"xyz").expect("write");
    open.sync(true).expect("sync");
    open.forget_cache(0, 3);
    assert_eq!(second.read_at(0, &mut all), Ok(3));
    assert_eq!(&all[..3], b"xyz");
    assert!(
        second.write_at(0, b"no").is_err(),
        "a reader's handle does not write"
    );
    let below = directory(store, dir, "d");
    assert!(
        store.open(&below, false).is_err(),
        "a directory is not opened"
    );
}

fn holes(store: &Arc<dyn Store>, dir: &Node) {
    let node = file(store, dir, "a");
    let open = store.open(&node, true).expect("open");
    let block = 65_536_u64;
    open.write_at(0, &vec![7; 3 * block as usize])
        .expect("write");
    let punch = AllocateFlags::PUNCH_HOLE | AllocateFlags::KEEP_SIZE;
    open.allocate(block, block, punch).expect("punch");
    let mut all = vec![1; 3 * block as usize];
    assert_eq!(open.read_at(0, &mut all), Ok(all.len()));
    let expected = |at: usize| if at as u64 / block == 1 { 0 } else { 7 };
    assert!(
        all.iter()
            .enumerate()
            .all(|(at, byte)| *byte == expected(at))
    );
    assert_eq!(open.seek(0, true), Ok(block));
    assert_eq!(open.seek(block, false), Ok(2 * block));
    assert_eq!(open.seek(2 * block, true), Ok(3 * block));
    assert_eq!(open.seek(3 * block, false), Err(Errno::NXIO));
    open.allocate(10, 10, punch)
        .expect("an odd range is zeroed");
    assert_eq!(open.read_at(0, &mut all[..30]), Ok(30));
    assert!((0..30).all(|at| (all[at] == 0) == (10..20).contains(&at)));
    open.allocate(0, 4 * block, AllocateFlags::KEEP_SIZE)
        .expect("reserve");
    assert_eq!(open.attr().expect("attr").size, 3 * block);
    open.allocate(0, 4 * block, AllocateFlags::empty())
        .expect("grow");
    assert_eq!(open.attr().expect("attr").size, 4 * block);
    assert_eq!(open.read_at(2 * block, &mut all[..4]), Ok(4));
    assert_eq!(all[..4], [7; 4], "reserving keeps content");
    assert_eq!(
        open.allocate(0, 0, AllocateFlags::empty()),
        Err(Errno::INVAL)
    );
}

fn attributes(store: &Arc<dyn Store>, dir: &Node) {
    let node = file(store, dir, "a");
    let to = |sec, nsec| SetTime::To(Timestamp { sec, nsec });
    let change = SetAttr {
        mode: Some(0o4755),
        uid: Some(1000),
        gid: Some(1001),
        size: Some(5),
        atime: Some(to(-5, 6)),
        mtime: Some(to(1_000_000_000, 123_456_789)),
    };
    let before = store.attr(&node).expect("attr");
    store.set_attr(&node, &change).expect("set_attr");
    let attr = store.attr(&node).expect("attr");
    assert_eq!(
        (attr.perm, attr.uid, attr.gid, attr.size),
        (0o4755, 1000, 1001, 5)
    );
    assert_eq!(attr.atime, Timestamp { sec: -5, nsec: 6 });
    assert_eq!(
        attr.mtime,
        Timestamp {
            sec: 1_000_000_000,
            nsec: 123_456_789
        }
    );
    assert!(attr.ctime >= before.ctime);
    store
        .open(&node, true)
        .expect("open")
        .write_at(0, b"x")
        .expect("write");
    let after = store.attr(&node).expect("attr");
    assert!(after.mtime > attr.mtime, "a write moves mtime");
    assert!(after.ctime >= attr.ctime);
    let sized = store.set_attr(
        dir,
        &SetAttr {
            size: Some(0),
            ..SetAttr::default()
        },
    );
    assert_eq!(sized, Err(Errno::ISDIR));
    let old = SetAttr {
        mtime: Some(to(1, 0)),
        ..SetAttr::default()
    };
    store.set_attr(dir, &old).expect("set_attr");
    file(store, dir, "b");
    assert!(
        store.attr(dir).expect("attr").mtime.sec > 1,
        "a new name moves the directory's mtime"
    );
}

fn xattrs(store: &Arc<dyn Store>, dir: &Node) {
    let node = file(store, dir, "a");
    let key = name("user.key");
    let listed = || -> BTreeSet<Vec<u8>> {
        let names = store.list_xattr(&node).expect("list_xattr");
        names
            .split(|byte| *byte == 0)
            .filter(|n| !n.is_empty())
            .map(<[u8]>::to_vec)
            .collect()
    };
    assert!(listed().is_empty(), "the label does not show");
    assert_eq!(store.xattr(&node, key), Err(Errno::NODATA));
    assert_eq!(store.set_xattr(&node, key, b"v", 2), Err(Errno::NODATA));
    store.set_xattr(&node, key, b"v", 1).expect("create");
    assert_eq!(store.set_xattr(&node, key, b"w", 1), Err(Errno::EXIST));
    store.set_xattr(&node, key, b"longer", 2).expect("replace");
    store
        .set_xattr(&node, name("trusted.own"), b"", 0)
        .expect("set");
    assert_eq!(store.xattr(&node, key), Ok(b"longer".to_vec()));
    assert_eq!(
        listed(),
        [b"trusted.own".to_vec(), b"user.key".to_vec()].into()
    );
    store.remove_xattr(&node, key).expect("remove");
    assert_eq!(store.remove_xattr(&node, key), Err(Errno::NODATA));
    assert_eq!(store.xattr(&node, key), Err(Errno::NODATA));
    assert_eq!(store.inspect(&node).expect("inspect").label, Some(label(9)));
}

fn special(store: &Arc<dyn Store>, dir: &Node) {
    let target = OsString::from("../no/where");
    let link = make(store, dir, "l", NewObject::Symlink(&target));
    assert_eq!(link.attr.kind, Kind::Symlink);
    assert_eq!(store.read_link(&link.node), Ok(target));
    assert_eq!(link.label, Some(label(9)));
    let node = file(store, dir, "f");
    assert!(store.read_link(&node).is_err());
    for (called, kind, rdev) in [
        ("p", Kind::Fifo, 0),
        ("s", Kind::Socket, 0),
        ("c", Kind::CharDevice, 0x103),
    ] {
        let made = make(store, dir, called, NewObject::Special(kind, rdev));
        assert_eq!(
            (made.attr.kind, made.attr.rdev, made.label),
            (kind, rdev, Some(label(9)))
        );
        assert!(
            store.open(&made.node, false).is_err(),
            "{kind:?} must not be opened"
        );
    }
}

fn listing(store: &Arc<dyn Store>, dir: &Node) {
    let mut expected = BTreeSet::new();
    for index in 0..300 {
        let called = format!("entry-{index}");
        file(store, dir, &called);
        expected.insert((OsString::from(called), Kind::File as u8));
    }
    directory(store, dir, "d");
    expected.insert((OsString::from("d"), Kind::Dir as u8));
    let mut count = 0;
    let mut seen = BTreeSet::new();
    store
        .list(dir, &mut |name, kind| {
            count += 1;
            seen.insert((name.to_owned(), kind as u8));
        })
        .expect("list");
    assert_eq!(seen, expected);
    assert_eq!(count, expected.len(), "no entry twice");
}

fn labels(store: &Arc<dyn Store>, dir: &Node) {
    let node = file(store, dir, "a");
    store.set_label(&node, &label(123)).expect("set_label");
    assert_eq!(
        store.inspect(&node).expect("inspect").label,
        Some(label(123))
    );
    assert_eq!(
        store.lookup(dir, name("a")).expect("lookup").label,
        Some(label(123))
    );
}

fn aside(store: &Arc<dyn Store>, dir: &Node) {
    let aside = store.aside().expect("aside");
    let below = directory(store, dir, "d");
    let node = file(store, &below, "f");
    let none = RenameFlags::empty();
    let there = name("contract-d");
    store
        .rename(dir, name("d"), &aside, there, none)
        .expect("away");
    assert_eq!(store.lookup(dir, name("d")).unwrap_err(), Errno::NOENT);
    assert_eq!(
        store.lookup(&below, name("f")).expect("still whole").node,
        node
    );
    store
        .rename(&aside, there, dir, name("back"), none)
        .expect("back");
    assert_eq!(store.parent(&below), Ok(dir.clone()));
    let root = store.root().expect("root");
    assert_ne!(root, aside);
}

fn store_calls(store: &Arc<dyn Store>, dir: &Node) {
    file(store, dir, "a");
    store.sync_dir(dir).expect("sync_dir");
    store.sync_all().expect("sync_all");
    store.probe().expect("probe");
    let space = store.space().expect("space");
    assert!(space.free_bytes <= space.total_bytes && space.name_max == 255);
    let system = store.system();
    system.replace("note", b"one").expect("replace");
    system.replace("note", b"two").expect("replace");
    assert_eq!(system.read("note"), Ok(b"two".to_vec()));
    let disk = system
        .open("ring", env::Open::Create(8192))
        .expect("create");
    disk.write_at(4096, &[5; 4096]).expect("write");
    disk.sync().expect("sync");
    let mut buffer = [0; 4096];
    disk.read_at(4096, &mut buffer).expect("read");
    assert_eq!((disk.len(), buffer), (Ok(8192), [5; 4096]));
    assert_eq!(disk.read_at(8000, &mut buffer), Err(Errno::INVAL));
    let listed = system.list().expect("list");
    assert!(listed.iter().any(|n| n == "note") && listed.iter().any(|n| n == "ring"));
    for called in ["note", "ring"] {
        system.remove(called).expect("remove");
    }
    system.sync().expect("sync");
    let root = store.root().expect("root");
    store
        .list(&root, &mut |entry, _| assert_ne!(entry, "note"))
        .expect("list");
}
