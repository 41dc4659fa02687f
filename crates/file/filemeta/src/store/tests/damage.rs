//! Damaged, missing and full: typed errors, and nothing of the rest lost.

use super::history::{ATTRIBUTE, ID, OPTIONS, owners, places, tag};
use crate::{Finding, MetaError, Store, SystemName, Unlinked};
use env::Dir;
use env::errno::{Errno, ErrorKind};
use env::handle::Handle;
use env::sim::{Effect, Operation, Trouble, World};

fn filled(world: &World) -> (Store, Vec<Handle>) {
    let owners = owners(world);
    let store = Store::create(&places(world), ID, ATTRIBUTE, OPTIONS).unwrap();
    let mut request = store.request();
    request.put(&owners[0], tag(1), &[1; 20_000]).unwrap();
    request.put(&owners[1], tag(1), &[2; 100]).unwrap();
    for owner in &owners {
        request.share(owner, tag(2), b"shared by all");
    }
    request.put_system(&SystemName::new("quota").unwrap(), &[3; 5000]);
    request.commit().unwrap();
    store.checkpoint().unwrap();
    (store, owners)
}

#[test]
fn a_flipped_bit_is_found_where_it_is_and_the_rest_stays_readable() {
    let world = World::new(1);
    let (store, owners) = filled(&world);
    assert!(world.rot("objects", "l000000000001", 2 * 4096 + 77, 3));
    let error = store.get(&owners[0], tag(1)).unwrap_err();
    match &error {
        MetaError::Corrupt { corruption, .. } => assert_eq!(corruption.offset, 8192),
        other => panic!("{other}"),
    }
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let mut head = [0; 3000];
    store.read(&owners[0], tag(1), 0, &mut head).unwrap();
    assert_eq!(head, [1; 3000]);
    let mut request = store.request();
    request.patch(&owners[0], tag(1), 8000, b"into the damaged block");
    assert!(matches!(request.commit(), Err(MetaError::Corrupt { .. })));
    let report = store.check().unwrap();
    assert!(
        matches!(report.findings[..], [Finding::Damaged { .. }]),
        "{report:?}"
    );
    // The whole content, from a replica, repairs.
    let mut request = store.request();
    request.put(&owners[0], tag(1), &[1; 20_000]).unwrap();
    request.commit().unwrap();
    assert_eq!(store.get(&owners[0], tag(1)).unwrap(), [1; 20_000]);
    assert!(store.check().unwrap().findings.is_empty());
}

#[test]
fn every_flipped_bit_of_a_header_is_found() {
    let world = World::new(1);
    let (store, owners) = filled(&world);
    for byte in 0..152 {
        assert!(world.rot("objects", "l000000000002", byte, byte as u8));
        assert!(
            store.get(&owners[1], tag(1)).is_err() || byte == u64::MAX,
            "{byte}"
        );
        assert!(world.rot("objects", "l000000000002", byte, byte as u8));
    }
    assert!(store.get(&owners[1], tag(1)).is_ok());
}

#[test]
fn missing_truncated_and_unknown_files_are_named() {
    let world = World::new(1);
    let (store, owners) = filled(&world);
    drop(store);
    let objects = world.dir("objects");
    let long = objects.read("l000000000001").unwrap();
    objects.remove("l000000000001").unwrap();
    let store = Store::open(&places(&world), None, OPTIONS).unwrap().store;
    let error = store.get(&owners[0], tag(1)).unwrap_err();
    assert!(matches!(error, MetaError::Missing { .. }), "{error}");
    assert!(matches!(
        store.check().unwrap().findings[..],
        [Finding::Dangling { .. }]
    ));
    drop(store);
    objects.replace("l000000000001", &long[..10_000]).unwrap();
    objects.replace("letter.txt", b"not ours").unwrap();
    let store = Store::open(&places(&world), None, OPTIONS).unwrap().store;
    let error = store.get(&owners[0], tag(1)).unwrap_err();
    assert!(matches!(error, MetaError::Corrupt { .. }), "{error}");
    let found = store.check().unwrap().findings;
    let named = |f: &Finding| matches!(f, Finding::Stray { file } if file == "letter.txt");
    assert!(found.iter().any(named), "{found:?}");
    assert_eq!(store.collect_garbage(Unlinked::Remove).unwrap().objects, 0);
    // A new content takes the place of one that is missing.
    let mut request = store.request();
    request.put(&owners[0], tag(1), b"again").unwrap();
    request.commit().unwrap();
    assert_eq!(store.get(&owners[0], tag(1)).unwrap(), b"again");
}

#[test]
fn a_count_that_is_wrong_is_found() {
    let world = World::new(1);
    let (store, owners) = filled(&world);
    assert_eq!(store.references(&owners[0], tag(2)).unwrap(), 4);
    store
        .change(|txn| {
            let entry = txn.composite(&owners[0])?.entries[&tag(2)].clone();
            let crate::Entry::Shared { number, .. } = entry else {
                return Err(MetaError::NoSuchEntry);
            };
            let key = crate::ObjectKey::Shared(number);
            let mut header = txn.known_header(&key)?;
            header.references = 9;
            txn.set_header(&key, &header);
            Ok(())
        })
        .unwrap();
    let findings = store.check().unwrap().findings;
    let wrong = matches!(
        findings[..],
        [Finding::WrongCount {
            stored: 9,
            found: 4,
            ..
        }]
    );
    assert!(wrong, "{findings:?}");
}

#[test]
fn no_room_in_the_inode_changes_nothing() {
    let world = World::new(1);
    let (store, owners) = filled(&world);
    world.set_attribute_room(Some(60));
    let mut request = store.request();
    request.put(&owners[0], tag(1), b"new").unwrap();
    request.set_value(&owners[1], tag(9), &[1; 60]);
    let error = request.commit().unwrap_err();
    assert!(
        matches!(error, MetaError::NoAttributeSpace { .. }),
        "{error}"
    );
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert_eq!(store.get(&owners[0], tag(1)).unwrap(), [1; 20_000]);
    let mut request = store.request();
    request.set_value(&owners[1], tag(9), &[1; 5]);
    request.commit().unwrap();
}

#[test]
fn a_full_disk_refuses_before_the_journal_has_anything() {
    let world = World::new(1);
    let (store, owners) = filled(&world);
    world.set_capacity(Some(1));
    let mut request = store.request();
    request.patch(&owners[0], tag(1), 5, b"in place");
    request.resize(&owners[1], tag(1), 50_000);
    let error = request.commit().unwrap_err();
    assert!(matches!(error, MetaError::NoSpace { .. }), "{error}");
    let mut request = store.request();
    let error = request.put(&owners[2], tag(1), &[1; 70_000]).err().unwrap();
    assert!(matches!(error, MetaError::NoSpace { .. }), "{error}");
    drop(request);
    let mut request = store.request();
    request.patch(&owners[0], tag(1), 5, b"in place");
    request.commit().expect("what needs no room goes on");
    world.set_capacity(None);
    assert!(store.check().unwrap().findings.is_empty());
    assert_eq!(store.length(&owners[1], tag(1)).unwrap(), 100);
}

#[test]
fn a_failure_behind_the_journal_stops_the_store_and_the_next_open_finishes() {
    let failures = [
        Trouble::new(Operation::Write, Effect::Fail(Errno::IO)).within("objects"),
        Trouble::new(Operation::SetAttribute, Effect::Fail(Errno::IO)),
    ];
    for failure in failures {
        let world = World::new(1);
        let (store, owners) = filled(&world);
        let mut request = store.request();
        request.patch(&owners[0], tag(1), 100, b"patched");
        // As long as before, so that nothing needs to be reserved.
        request.share(&owners[1], tag(2), b"shared by one");
        let ticket = request.submit().unwrap();
        world.plan(failure);
        let error = store.flush_to(ticket).unwrap_err();
        assert!(matches!(error, MetaError::Stopped { .. }), "{error}");
        assert!(matches!(
            store.get(&owners[0], tag(1)),
            Err(MetaError::Stopped { .. })
        ));
        assert!(matches!(store.checkpoint(), Err(MetaError::Stopped { .. })));
        world.crash();
        world.calm();
        let opened = Store::open(&places(&world), None, OPTIONS).unwrap();
        assert_eq!(opened.replay.requests, 1);
        let content = opened.store.get(&owners[0], tag(1)).unwrap();
        assert_eq!(&content[100..107], b"patched");
        assert_eq!(
            opened.store.get(&owners[1], tag(2)).unwrap(),
            b"shared by one"
        );
        assert!(opened.store.check().unwrap().findings.is_empty());
    }
}

#[test]
fn stores_are_made_once_and_opened_by_one() {
    let world = World::new(1);
    let none = Store::open(&places(&world), None, OPTIONS).map(drop);
    assert!(matches!(none, Err(MetaError::NoStore)), "{none:?}");
    let named = Store::create(&places(&world), ID, c"hfm", OPTIONS).map(drop);
    assert!(matches!(named, Err(MetaError::AttributeName)), "{named:?}");
    let store = Store::create(&places(&world), ID, ATTRIBUTE, OPTIONS).unwrap();
    let busy = Store::open(&places(&world), None, OPTIONS).map(drop);
    assert!(matches!(busy, Err(MetaError::Busy)), "{busy:?}");
    drop(store);
    let exists = Store::create(&places(&world), ID, ATTRIBUTE, OPTIONS).map(drop);
    assert!(matches!(exists, Err(MetaError::Exists)), "{exists:?}");
    assert!(world.rot("objects", "store", 70, 1));
    let bad = Store::open(&places(&world), None, OPTIONS).map(drop);
    assert!(matches!(bad, Err(MetaError::StoreCorrupt(_))), "{bad:?}");
}

#[test]
fn a_damaged_journal_is_refused() {
    let world = World::new(1);
    let (store, owners) = filled(&world);
    for byte in 0..30 {
        let mut request = store.request();
        request.put(&owners[0], tag(1), &[byte; 2000]).unwrap();
        request.commit().unwrap();
    }
    drop(store);
    let mut segments = world.dir("journal").list().unwrap();
    segments.retain(|file| file.ends_with(".segment"));
    assert!(world.rot("journal", &segments[0], 4096 + 50, 1));
    let refused = Store::open(&places(&world), None, OPTIONS).map(drop);
    assert!(matches!(refused, Err(MetaError::Log(_))), "{refused:?}");
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Corrupt);
}
