use super::{Added, Table};
use crate::{Attr, Ino, Kind, Timestamp};
use std::cell::Cell;

fn attr(kind: Kind, perm: u16) -> Attr {
    let time = Timestamp::default();
    Attr {
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        size: 0,
        blocks: 0,
        blksize: 4096,
        atime: time,
        mtime: time,
        ctime: time,
    }
}

#[test]
fn the_layer_hears_of_the_last_forget_only() {
    let table = Table::new(10);
    let file = attr(Kind::File, 0o644);
    let forgotten = Cell::new(0);
    let forget = || forgotten.set(forgotten.get() + 1);
    for _ in 0..3 {
        assert_eq!(table.add(Ino(5), &file, table.mark()), Added::Done);
    }
    table.remove(Ino(5), 2, forget);
    assert_eq!((table.len(), forgotten.get()), (1, 0));
    table.remove(Ino(5), 1, forget);
    assert_eq!((table.len(), forgotten.get()), (0, 1));
    table.remove(Ino(5), 1, forget);
    table.remove(Ino::ROOT, 100, forget);
    assert_eq!(forgotten.get(), 1);
}

#[test]
fn a_reference_taken_across_a_forget_is_looked_up_again() {
    let table = Table::new(10);
    let file = attr(Kind::File, 0o644);
    table.add(Ino(5), &file, table.mark());
    let mark = table.mark();
    table.remove(Ino(5), 1, || ());
    assert_eq!(table.add(Ino(5), &file, mark), Added::Again);
    let now = table.mark();
    assert_eq!(
        table.add(Ino(5), &file, mark),
        Added::Again,
        "nobody has looked again"
    );
    assert_eq!(table.add(Ino(5), &file, now), Added::Done);
    assert_eq!(table.add(Ino(5), &file, mark), Added::Done, "somebody has");
}

#[test]
fn the_clock_gives_a_second_chance_and_forgets_the_forgotten() {
    let table = Table::new(10);
    for number in 2..100 {
        table.add(Ino(number), &attr(Kind::File, 0o644), table.mark());
    }
    table.add(Ino(2), &attr(Kind::File, 0o644), table.mark());
    for number in 50..100 {
        table.remove(Ino(number), 1, || ());
    }
    let first = table.unused(1000, 1000);
    assert_eq!(first.len(), 47);
    assert!(!first.contains(&(Ino(2), false)), "it was used twice");
    assert_eq!(table.unused(1000, 1000).len(), 48);
    assert!(table.unused(1000, 5).len() <= 5);
}

#[test]
fn set_id_files_are_known_by_their_last_mode() {
    let table = Table::new(10);
    table.add(Ino(2), &attr(Kind::File, 0o4755), table.mark());
    table.add(Ino(3), &attr(Kind::Dir, 0o2755), table.mark());
    assert!(table.has_set_id(Ino(2)));
    assert!(!table.has_set_id(Ino(3)));
    table.note(Ino(2), &attr(Kind::File, 0o755));
    assert!(!table.has_set_id(Ino(2)));
}

#[test]
fn an_inode_that_is_held_is_known_to_the_layer_whatever_crosses() {
    use std::collections::HashSet;
    // A layer that knows what it has answered and not been told to forget.
    let known = std::sync::Mutex::new(HashSet::new());
    let table = Table::new(10);
    let look = |number: u64| {
        known.lock().expect("no panic").insert(number);
        std::thread::yield_now();
        Ok((Ino(number), attr(Kind::File, 0o644)))
    };
    let forget = |ino: Ino| {
        known.lock().expect("no panic").remove(&ino.0);
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (known, table, look, forget) = (&known, &table, &look, &forget);
            scope.spawn(move || {
                for step in 0..2000 {
                    let number = 2 + (step * 7 + thread) % 3;
                    let (ino, _) = table.hold(|| look(number), forget).expect("found");
                    assert!(known.lock().expect("no panic").contains(&ino.0));
                    table.remove(ino, 1, || forget(ino));
                }
            });
        }
    });
    assert_eq!(table.len(), 0);
}
