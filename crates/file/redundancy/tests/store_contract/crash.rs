//! What a simulated store keeps and loses.

use crate::checks::make;
use holdfast_redundancy::store::sim::{Fault, Power, Rng, SimStore};
use holdfast_redundancy::store::{Node, Store};
use mount::{Errno, NewObject};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::sync::Arc;

fn fresh(seed: u64) -> (Arc<SimStore>, Arc<dyn Store>, Node) {
    let sim = SimStore::new(seed, &Power::new());
    let store: Arc<dyn Store> = sim.clone();
    let root = sim.root().expect("root");
    (sim, store, root)
}

fn read(store: &Arc<SimStore>, name: &str) -> Option<Vec<u8>> {
    let root = store.root().expect("root");
    let found = store.lookup(&root, OsStr::new(name)).ok()?;
    let mut bytes = vec![0; found.attr.size as usize];
    let file = store.open(&found.node, false).expect("open");
    assert_eq!(file.read_at(0, &mut bytes), Ok(bytes.len()));
    Some(bytes)
}

#[test]
fn what_is_synced_survives_every_crash() {
    for seed in 0..200 {
        let (sim, store, root) = fresh(seed);
        let a = make(&store, &root, "a", NewObject::File).node;
        let file = store.open(&a, true).expect("open");
        file.write_at(100, &[1; 10_000]).expect("write");
        file.sync(seed % 2 == 0).expect("sync");
        file.write_at(5000, &[2; 20_000]).expect("write");
        make(&store, &root, "b", NewObject::File);
        sim.crash();
        let after = sim.reopen();
        let bytes = read(&after, "a").expect("a is there");
        assert!(
            bytes.len() >= 10_100 && bytes.len() <= 25_000,
            "size {}",
            bytes.len()
        );
        assert!(bytes[..100].iter().all(|b| *b == 0) && bytes[100..5000].iter().all(|b| *b == 1));
        assert!(bytes[5000..10_100].iter().all(|b| *b == 1 || *b == 2));
        assert!(bytes[10_100..].iter().all(|b| *b == 0 || *b == 2));
        assert_eq!(
            file.read_at(0, &mut [0]),
            Err(Errno::NODEV),
            "old handles are dead"
        );
        assert_eq!(store.root(), Err(Errno::NODEV), "old connections are dead");
    }
}

#[test]
fn unsynced_changes_are_lost_torn_and_reordered_in_some_crash_or_other() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..400 {
        let (sim, store, root) = fresh(seed);
        let a = make(&store, &root, "a", NewObject::File).node;
        let file = store.open(&a, true).expect("open");
        file.write_at(0, &[1; 8192]).expect("write");
        file.sync(false).expect("sync");
        file.write_at(0, &[2; 8192]).expect("write");
        store.link(&a, &root, OsStr::new("b")).expect("link");
        store.link(&a, &root, OsStr::new("c")).expect("link");
        sim.crash();
        let after = sim.reopen();
        let bytes = read(&after, "a").expect("a");
        let (first, second) = bytes.split_at(4096);
        let torn = |page: &[u8]| page.iter().any(|b| *b != page[0]);
        if torn(first) || torn(second) {
            outcomes.insert("torn");
        }
        if first == [1; 4096] && second == [2; 4096] {
            outcomes.insert("reordered");
        }
        if bytes == [1; 8192] {
            outcomes.insert("lost");
        }
        if bytes == [2; 8192] {
            outcomes.insert("kept");
        }
        match (read(&after, "b").is_some(), read(&after, "c").is_some()) {
            (false, true) => panic!("seed {seed}: names came out of order"),
            (true, false) => {
                outcomes.insert("prefix");
            }
            _ => {}
        }
    }
    let all = BTreeSet::from(["torn", "reordered", "lost", "kept", "prefix"]);
    assert_eq!(outcomes, all);
}

#[test]
fn a_crash_is_the_same_for_the_same_seed() {
    let run = || {
        let (sim, store, root) = fresh(99);
        let mut rng = Rng::new(5);
        for index in 0..20 {
            let node = make(&store, &root, &format!("f{index}"), NewObject::File).node;
            let file = store.open(&node, true).expect("open");
            let mut data = vec![0; rng.below(20_000) as usize];
            rng.fill(&mut data);
            file.write_at(rng.below(5000), &data).expect("write");
        }
        sim.crash();
        let after = sim.reopen();
        (0..20)
            .map(|index| read(&after, &format!("f{index}")))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

#[test]
fn a_kill_loses_nothing() {
    let (sim, store, root) = fresh(3);
    let a = make(&store, &root, "a", NewObject::File).node;
    store
        .open(&a, true)
        .expect("open")
        .write_at(0, b"cached")
        .expect("write");
    sim.kill();
    let after = sim.reopen();
    assert_eq!(read(&after, "a"), Some(b"cached".to_vec()));
    assert_eq!(store.root(), Err(Errno::NODEV));
}

#[test]
fn faults_strike_when_they_are_ordered() {
    let (sim, store, root) = fresh(4);
    let a = make(&store, &root, "a", NewObject::File).node;
    let file = store.open(&a, true).expect("open");
    file.write_at(0, &[1; 4096]).expect("write");
    file.sync(false).expect("sync");
    sim.set_read_only(true);
    assert_eq!(file.write_at(0, b"x"), Err(Errno::ROFS));
    assert_eq!(store.unlink(&root, OsStr::new("a")), Err(Errno::ROFS));
    sim.heal();
    sim.set_room(Some(8192));
    assert_eq!(
        file.write_at(0, &[1; 4096]),
        Ok(()),
        "overwriting needs no room"
    );
    assert_eq!(file.write_at(4096, &[1; 12_288]), Err(Errno::NOSPC));
    assert_eq!(
        file.attr().expect("attr").size,
        12_288,
        "what fitted is there"
    );
    sim.heal();
    sim.fail_after(Fault::ReadError, 1);
    assert_eq!(file.read_at(0, &mut [0]), Ok(1));
    assert_eq!(file.read_at(0, &mut [0]), Err(Errno::IO));
    sim.fail_after(Fault::LostWrite, 0);
    file.write_at(0, &[9; 512]).expect("an acknowledged write");
    file.sync(false).expect("an acknowledged sync");
    let mut byte = [0];
    assert_eq!(
        (file.read_at(0, &mut byte), byte),
        (Ok(1), [9]),
        "the cache has it"
    );
    sim.crash();
    let after = sim.reopen();
    assert_eq!(read(&after, "a").expect("a")[0], 1, "the medium does not");
    assert_eq!(sim.flip_bit(&a, 3, 0), Ok(true));
    assert_eq!(read(&after, "a").expect("a")[3], 0);
}

#[test]
fn a_failed_sync_loses_what_it_was_to_save() {
    let (sim, store, root) = fresh(6);
    let a = make(&store, &root, "a", NewObject::File).node;
    let file = store.open(&a, true).expect("open");
    file.write_at(0, &[1; 4096]).expect("write");
    file.sync(false).expect("sync");
    file.write_at(0, &[2; 4096]).expect("write");
    sim.fail_after(Fault::SyncError, 0);
    assert_eq!(file.sync(false), Err(Errno::IO));
    assert_eq!(
        file.sync(false),
        Ok(()),
        "the second answer is a lie, as on Linux"
    );
    assert_eq!(read(&sim, "a").expect("a")[0], 2, "the cache has it");
    file.write_at(8192, &[3; 4096]).expect("write");
    file.forget_cache(0, 0);
    let seen = read(&sim, "a").expect("a");
    assert_eq!(seen[0], 1, "without the cache it is gone");
    assert_eq!(seen[8192], 3, "what is still to be written is not");
    file.sync(false).expect("sync");
    sim.crash();
    let after = read(&sim.reopen(), "a").expect("a");
    assert_eq!((after[0], after[8192]), (1, 3));
}

#[test]
fn a_power_cut_stops_every_store_at_one_step() {
    let power = Power::new();
    let stores = [SimStore::new(1, &power), SimStore::new(2, &power)];
    power.cut_after(3);
    let mut made = 0;
    for index in 0..4 {
        for sim in &stores {
            let store: Arc<dyn Store> = sim.clone();
            let Ok(root) = store.root() else { continue };
            let called = format!("f{index}");
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                make(&store, &root, &called, NewObject::Dir)
            }));
            made += usize::from(result.is_ok());
        }
    }
    assert!(power.is_off());
    assert_eq!(made, 1, "the second was cut before its label");
    power.set(true);
    let root = stores[1].root().expect("on again");
    let half = stores[1]
        .lookup(&root, OsStr::new("f0"))
        .expect("half made");
    assert_eq!(half.label, None);
}

#[test]
fn system_files_crash_by_the_same_rules() {
    for seed in 0..100 {
        let (sim, store, _) = fresh(seed);
        let system = store.system();
        system.replace("header", b"one").expect("replace");
        let ring = system
            .open("ring", env::Open::Create(16_384))
            .expect("create");
        system.sync().expect("sync");
        let durable = system.open("ring", env::Open::WriteDurable).expect("open");
        durable.write_at(4096, &[7; 4096]).expect("write");
        ring.write_at(8192, &[8; 4096]).expect("write");
        let mut power_cut = [0; 1];
        ring.read_at(4096, &mut power_cut).expect("read");
        sim.crash();
        let system = sim.reopen().system();
        assert_eq!(system.read("header"), Ok(b"one".to_vec()));
        let bytes = system.read("ring").expect("ring");
        assert_eq!(bytes.len(), 16_384);
        assert_eq!(bytes[4096..8192], [7; 4096]);
        assert!(bytes[8192..12_288].iter().all(|b| *b == 0 || *b == 8));
    }
}
