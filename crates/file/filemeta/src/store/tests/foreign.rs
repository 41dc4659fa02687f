//! Attributes where they do not belong.

use super::history::{ATTRIBUTE, ID, OPTIONS, owners, places, tag};
use crate::store::Planted;
use crate::{MetaError, Store, StoreId, Unlinked};
use env::handle::Handle;
use env::sim::World;
use env::{Dir, Files};

fn copy(world: &World, from: &Handle, to: &Handle) {
    let value = world.files().attribute(from, ATTRIBUTE).unwrap();
    world.files().set_attribute(to, ATTRIBUTE, &value).unwrap();
}

/// Whether a file whose attribute was copied from another reads that other's metadata.
fn leaks(planted: Planted) -> bool {
    let world = World::new(1);
    let owners = owners(&world);
    let store = Store::create(&places(&world), ID, ATTRIBUTE, OPTIONS).unwrap();
    store.state.lock().planted = planted;
    let mut request = store.request();
    request
        .put(&owners[0], tag(1), b"the first file's")
        .unwrap();
    request.commit().unwrap();
    copy(&world, &owners[0], &owners[1]);
    store.get(&owners[1], tag(1)).is_ok()
}

#[test]
fn a_copied_attribute_never_reads_the_other_files_metadata() {
    assert!(!leaks(Planted::Nothing));
}

#[test]
fn a_store_that_skips_the_check_of_owners_is_found() {
    assert!(leaks(Planted::BelievesEveryAttribute));
}

#[test]
fn a_copy_is_named_refuses_changes_and_can_be_reset() {
    let world = World::new(1);
    let owners = owners(&world);
    let store = Store::create(&places(&world), ID, ATTRIBUTE, OPTIONS).unwrap();
    let mut request = store.request();
    request.put(&owners[0], tag(1), b"linked").unwrap();
    request.share(&owners[2], tag(2), b"shared");
    request.set_value(&owners[3], tag(2), b"tiny");
    request.commit().unwrap();
    for from in [0, 2] {
        copy(&world, &owners[from], &owners[1]);
        let error = store.entries(&owners[1]).unwrap_err();
        match error {
            MetaError::Foreign { owner } => assert_eq!(owner, owners[from]),
            other => panic!("{other}"),
        }
        let mut request = store.request();
        request.clear(&owners[1], tag(1));
        assert!(matches!(request.commit(), Err(MetaError::Foreign { .. })));
        let mut request = store.request();
        request.forget(&owners[1]);
        assert!(request.commit().is_err());
    }
    // Values alone do not say whose they are.
    copy(&world, &owners[3], &owners[1]);
    let error = store.entries(&owners[1]).unwrap_err();
    assert!(matches!(error, MetaError::AttributeCorrupt(_)), "{error}");

    let mut request = store.request();
    request.reset(&owners[1]);
    request.put(&owners[1], tag(1), b"its own").unwrap();
    request.commit().unwrap();
    assert_eq!(store.get(&owners[1], tag(1)).unwrap(), b"its own");
    assert_eq!(store.get(&owners[0], tag(1)).unwrap(), b"linked");
    assert_eq!(store.get(&owners[2], tag(2)).unwrap(), b"shared");
    assert!(store.check().unwrap().findings.is_empty());
}

#[test]
fn metadata_of_removed_files_is_collected_and_of_stripped_ones_kept() {
    let world = World::new(1);
    let owners = owners(&world);
    let store = Store::create(&places(&world), ID, ATTRIBUTE, OPTIONS).unwrap();
    let mut request = store.request();
    for owner in &owners {
        request.put(owner, tag(1), b"linked").unwrap();
        request.share(owner, tag(2), b"shared");
    }
    request.commit().unwrap();
    world.dir("user").remove("f0").unwrap();
    assert!(matches!(
        store.get(&owners[0], tag(1)),
        Err(MetaError::OwnerGone)
    ));
    world
        .files()
        .remove_attribute(&owners[1], ATTRIBUTE)
        .unwrap();
    assert!(matches!(
        store.get(&owners[1], tag(1)),
        Err(MetaError::NoSuchEntry)
    ));

    let shown: Vec<String> = store
        .check()
        .unwrap()
        .findings
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(shown.len(), 4, "{shown:?}");
    let report = store.collect_garbage(Unlinked::Keep).unwrap();
    assert_eq!((report.objects, report.references, report.left), (1, 1, 2));
    assert_eq!(store.references(&owners[2], tag(2)).unwrap(), 3);
    let report = store.collect_garbage(Unlinked::Remove).unwrap();
    assert_eq!((report.objects, report.references, report.left), (1, 0, 1));
    assert_eq!(store.get(&owners[2], tag(1)).unwrap(), b"linked");

    let mut request = store.request();
    request.forget(&owners[2]).forget(&owners[3]);
    request.commit().unwrap();
    assert_eq!(store.status().queued_requests, 0);
}

#[test]
fn another_stores_files_are_refused() {
    let world = World::new(1);
    let owners = owners(&world);
    let mut both = Vec::new();
    for (id, prefix) in [(ID, "a"), (StoreId(2), "b")] {
        let places = crate::Places {
            objects: world.dir(&format!("{prefix}-objects")),
            journal: world.dir(&format!("{prefix}-journal")),
            files: world.files(),
        };
        let store = Store::create(&places, id, ATTRIBUTE, OPTIONS).unwrap();
        both.push((places, store));
    }
    let mut request = both[0].1.request();
    request
        .put(&owners[0], tag(1), b"of the first store")
        .unwrap();
    request.commit().unwrap();
    let error = both[1].1.get(&owners[0], tag(1)).unwrap_err();
    assert!(matches!(error, MetaError::AttributeCorrupt(_)), "{error}");

    // The same number in the other store, and then the file swapped.
    let mut request = both[1].1.request();
    request
        .put(&owners[1], tag(1), b"of the second store")
        .unwrap();
    request.commit().unwrap();
    let number = "l000000000001";
    let other = both[1].0.objects.read(number).unwrap();
    both[0].0.objects.replace(number, &other).unwrap();
    world.kill();
    let (places, id) = (
        crate::Places {
            objects: world.dir("a-objects"),
            journal: world.dir("a-journal"),
            files: world.files(),
        },
        Some(ID),
    );
    let wrong = Store::open(&places, Some(StoreId(9)), OPTIONS).map(drop);
    assert!(
        matches!(wrong, Err(MetaError::WrongStore { .. })),
        "{wrong:?}"
    );
    // Its own journal would put the right bytes back: a checkpoint has emptied that.
    let opened = Store::open(&places, id, OPTIONS).unwrap();
    drop(opened);
    both_swapped(&world, &places, &other, &owners[0]);
}

fn both_swapped(world: &World, places: &crate::Places, other: &[u8], owner: &Handle) {
    places.objects.replace("l000000000001", other).unwrap();
    world.files().sync_all().unwrap();
    let store = Store::open(places, Some(ID), OPTIONS).unwrap().store;
    let error = store.get(owner, tag(1)).unwrap_err();
    assert!(
        matches!(
            error,
            MetaError::OtherStore {
                found: StoreId(2),
                ..
            }
        ),
        "{error}"
    );
    assert!(!store.check().unwrap().is_sound());
}
