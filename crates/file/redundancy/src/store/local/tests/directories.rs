//! Directories that stay open between calls, and files that are handed over open.

use super::*;

#[test]
fn a_directory_that_goes_while_it_is_open_answers_as_its_node_does() {
    let f = fixture();
    let name = OsStr::new("x");
    let mut nodes = Vec::new();
    for by_us in [true, false] {
        let dir = f.make("dir", &what(NewObject::Dir)).node;
        // From now on it is kept open.
        assert_eq!(f.store.lookup(&dir, name).err(), Some(Errno::NOENT));
        if by_us {
            let removed = f.store.remove_dir(&f.root, OsStr::new("dir"));
            removed.expect("removes");
        } else {
            std::fs::remove_dir(f.path("dir")).expect("removes behind the store's back");
        }
        nodes.push(dir);
    }
    let file = f.make("file", &what(NewObject::File)).node;
    for dir in &nodes {
        let stale = Some(Errno::STALE);
        let what = what(NewObject::File);
        assert_eq!(f.store.lookup(dir, name).err(), stale);
        assert_eq!(f.store.make(dir, name, &what).err(), stale);
        assert_eq!(f.store.link(&file, dir, name).err(), stale);
        assert_eq!(f.store.unlink(dir, name).err(), stale);
        assert_eq!(f.store.remove_dir(dir, name).err(), stale);
        assert_eq!(f.store.attr(dir).err(), stale);
        let root = (&f.root, OsStr::new("file"));
        let renamed = f
            .store
            .rename(root.0, root.1, dir, name, RenameFlags::empty());
        assert_eq!(renamed.err(), stale);
    }
    assert!(f.lookup("file").is_ok());
}

#[test]
fn more_directories_than_are_kept_open_are_all_found() {
    let f = fixture();
    let names: Vec<_> = (0..200).map(|n| format!("d{n}")).collect();
    let nodes: Vec<_> = names
        .iter()
        .map(|name| f.make(name, &what(NewObject::Dir)).node)
        .collect();
    for round in 0..2 {
        for (at, node) in nodes.iter().enumerate() {
            let inner = format!("f{at}-{round}");
            let file = what(NewObject::File);
            let made = f.store.make(node, OsStr::new(&inner), &file);
            made.expect("makes");
            assert!(f.path(&names[at]).join(&inner).exists());
        }
    }
    let open = std::fs::read_dir("/proc/self/fd").expect("lists");
    let place = f.place.path().to_path_buf();
    let below = open
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|target| target.starts_with(place.join(DATA)) && *target != place.join(DATA))
        .count();
    assert!((1..=64).contains(&below), "{below} directories are open");
}

#[test]
fn a_directory_that_was_renamed_is_worked_in_where_it_is_now() {
    let f = fixture();
    let dir = f.make("a", &what(NewObject::Dir)).node;
    f.store
        .make(&dir, OsStr::new("before"), &what(NewObject::File))
        .expect("makes");
    let (a, b) = (OsStr::new("a"), OsStr::new("b"));
    f.store
        .rename(&f.root, a, &f.root, b, RenameFlags::empty())
        .expect("renames");
    f.make("a", &what(NewObject::Dir));
    f.store
        .make(&dir, OsStr::new("after"), &what(NewObject::File))
        .expect("makes");
    assert!(f.path("b/before").exists() && f.path("b/after").exists());
}

#[test]
fn a_new_file_is_handed_over_open_whatever_its_mode() {
    let f = fixture();
    let make = Make {
        mode: 0,
        uid: 1000,
        ..what(NewObject::File)
    };
    let (found, file) = f
        .store
        .make_open(&f.root, OsStr::new("f"), &make)
        .expect("makes");
    let file = file.expect("is open");
    file.write_at(3, b"abc").expect("writes");
    let mut content = [1; 8];
    assert_eq!(file.read_at(0, &mut content), Ok(6));
    assert_eq!(&content[..6], b"\0\0\0abc");
    assert_eq!(f.store.attr(&found.node).expect("is there").size, 6);
    let (_, none) = f
        .store
        .make_open(&f.root, OsStr::new("d"), &what(NewObject::Dir))
        .expect("makes");
    assert!(none.is_none());
}
