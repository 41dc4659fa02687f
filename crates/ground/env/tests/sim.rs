//! What the simulated machine does at a crash and under faults.

use holdfast_env::errno::Errno;
use holdfast_env::sim::{Effect, Operation, SECTOR_BYTES, Trouble, World};
use holdfast_env::{Clock, Dir, Disk, Open, Request};
use std::collections::BTreeSet;
use std::time::Duration;

#[test]
fn a_crash_keeps_what_was_synced_whatever_the_seed() {
    for seed in 0..50 {
        let world = World::new(seed);
        let dir = world.dir("d");
        let disk = dir.open("f", Open::Create(4096)).unwrap();
        dir.sync().unwrap();
        disk.write_at(0, &[1; 4096]).unwrap();
        disk.sync().unwrap();
        disk.write_at(1024, &[2; 2048]).unwrap();
        let durable = dir.open("f", Open::WriteDurable).unwrap();
        durable.write_at(0, &[3; 512]).unwrap();
        world.crash();
        let content = world.dir("d").read("f").unwrap();
        assert_eq!(content[..512], [3; 512]);
        assert!(
            content[512..1024]
                .iter()
                .chain(&content[3072..])
                .all(|b| *b == 1)
        );
        for sector in content[1024..3072].chunks(SECTOR_BYTES) {
            assert!(sector == [1; SECTOR_BYTES] || sector == [2; SECTOR_BYTES]);
        }
    }
}

#[test]
fn over_many_seeds_unsynced_writes_are_kept_lost_and_torn() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..100 {
        let world = World::new(seed);
        let dir = world.dir("d");
        let disk = dir.open("f", Open::Create(1024)).unwrap();
        dir.sync().unwrap();
        disk.write_at(0, &[9; 1024]).unwrap();
        world.crash();
        let content = world.dir("d").read("f").unwrap();
        outcomes.insert((content[0], content[1023]));
    }
    assert_eq!(outcomes.len(), 4, "{outcomes:?}");
}

#[test]
fn over_many_seeds_unsynced_names_come_and_go_but_renames_stay() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..100 {
        let world = World::new(seed);
        let dir = world.dir("d");
        dir.replace("old", b"").unwrap();
        dir.replace("a", b"").unwrap();
        dir.rename("a", "b").unwrap();
        dir.remove("old").unwrap();
        dir.open("new", Open::Create(0)).unwrap();
        world.crash();
        let names = world.dir("d").list().unwrap();
        assert!(names.contains(&"b".to_owned()) && !names.contains(&"a".to_owned()));
        outcomes.insert(names);
    }
    assert_eq!(outcomes.len(), 4, "{outcomes:?}");
}

#[test]
fn the_same_seed_gives_the_same_machine() {
    let run = |seed| {
        let world = World::new(seed);
        let disk = world.disk("disk", 65536);
        for i in 0..20u64 {
            disk.write_at(i * 3000, &[i as u8; 3000]).unwrap();
        }
        world.crash();
        let mut bytes = vec![0; 65536];
        world.disk("disk", 65536).read_at(0, &mut bytes).unwrap();
        bytes
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn a_failed_sync_may_lose_data_that_a_later_sync_reports_as_safe() {
    let mut lost = false;
    for seed in 0..50 {
        let world = World::new(seed);
        let disk = world.disk("disk", 4096);
        disk.write_at(0, &[1; 4096]).unwrap();
        world.plan(Trouble::new(Operation::Sync, Effect::Fail(Errno::IO)));
        assert_eq!(disk.sync(), Err(Errno::IO));
        assert_eq!(disk.sync(), Err(Errno::IO), "the handle is poisoned");
        let disk = world.disk("disk", 4096);
        disk.sync().unwrap();
        let mut bytes = [0; 4096];
        disk.read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes, [1; 4096], "the cache still shows it");
        world.crash();
        world.disk("disk", 4096).read_at(0, &mut bytes).unwrap();
        lost |= bytes != [1; 4096];
    }
    assert!(lost);
}

#[test]
fn planned_faults_strike_where_and_when_they_were_planned() {
    let world = World::new(3);
    let dir = world.dir("d");
    let disk = dir.open("data", Open::Create(8192)).unwrap();
    let other = dir.open("other", Open::Create(8192)).unwrap();

    world.plan(
        Trouble::new(Operation::Write, Effect::Fail(Errno::IO))
            .named("data")
            .after(1),
    );
    disk.write_at(0, &[1; 10]).unwrap();
    other.write_at(0, &[1; 10]).unwrap();
    assert_eq!(disk.write_at(0, &[2; 10]), Err(Errno::IO));
    assert_eq!(disk.write_at(0, &[2; 10]), Err(Errno::IO), "poisoned");
    let disk = dir.open("data", Open::Write).unwrap();
    disk.write_at(0, &[3; 10]).unwrap();

    world.plan(Trouble::new(Operation::Write, Effect::Misdirect(512)));
    disk.write_at(4096, &[4; 512]).unwrap();
    world.plan(Trouble::new(Operation::Write, Effect::Lose));
    disk.write_at(0, &[5; 512]).unwrap();
    let content = dir.read("data").unwrap();
    assert_eq!((content[0], content[4096], content[4608]), (3, 0, 4));

    let clock = world.clock();
    world.plan(Trouble::new(
        Operation::Sync,
        Effect::Stall(Duration::from_secs(3)),
    ));
    let before = clock.now();
    disk.sync().unwrap();
    assert_eq!(clock.now().since(before), Duration::from_secs(3));

    assert!(world.rot("d", "data", 4608, 0));
    assert_eq!(dir.read("data").unwrap()[4608], 5);
    assert!(world.rot_somewhere().is_some());
}

#[test]
fn a_full_a_read_only_and_an_absent_store_say_so() {
    let world = World::new(3);
    let dir = world.dir("d");
    world.set_capacity(Some(8192));
    let disk = dir.open("f", Open::Create(8000)).unwrap();
    assert_eq!(dir.open("g", Open::Create(8000)).err(), Some(Errno::NOSPC));
    assert_eq!(dir.list().unwrap(), ["f"]);
    assert_eq!(disk.write_at(8000, &[0; 200]), Err(Errno::NOSPC));
    assert_eq!(dir.replace("small", &[0; 200]), Err(Errno::NOSPC));
    disk.write_at(0, &[1; 8000]).unwrap();
    world.set_capacity(None);

    world.set_read_only(true);
    assert_eq!(disk.write_at(0, b"x"), Err(Errno::ROFS));
    assert_eq!(disk.sync(), Err(Errno::ROFS), "poisoned");
    assert_eq!(dir.remove("f"), Err(Errno::ROFS));
    assert_eq!(dir.open("f", Open::Write).err(), Some(Errno::ROFS));
    dir.open("f", Open::Read).unwrap();
    assert_eq!(dir.read("f").unwrap(), vec![1; 8000]);
    world.set_read_only(false);

    let disk = dir.open("f", Open::Write).unwrap();
    world.set_present("d", false);
    assert_eq!(dir.read("f"), Err(Errno::NODEV));
    assert_eq!(disk.sync(), Err(Errno::NODEV));
    world.set_present("d", true);
    let disk = dir.open("f", Open::Write).unwrap();
    disk.sync().unwrap();

    world.kill();
    assert_eq!(disk.sync(), Err(Errno::NODEV));
    assert_eq!(world.dir("d").read("f").unwrap(), vec![1; 8000]);
}

#[test]
fn attributes_survive_a_crash_once_everything_was_synced_and_perhaps_before() {
    use holdfast_env::Files;
    let (mut kept, mut lost) = (0, 0);
    for seed in 0..40 {
        let world = World::new(seed);
        let dir = world.dir("d");
        dir.replace("f", b"").unwrap();
        let handle = dir.handle("f").unwrap();
        let files = world.files();
        files.set_attribute(&handle, c"trusted.a", b"1").unwrap();
        files.sync_all().unwrap();
        files.set_attribute(&handle, c"trusted.a", b"2").unwrap();
        world.crash();
        assert_eq!(
            files.attribute(&handle, c"trusted.a"),
            Err(Errno::NODEV),
            "handles do not outlive the machine"
        );
        match &world.files().attribute(&handle, c"trusted.a").unwrap()[..] {
            b"1" => lost += 1,
            b"2" => kept += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(kept > 5 && lost > 5, "{kept} kept, {lost} lost");
}

#[test]
fn a_file_has_room_for_so_many_bytes_of_attributes() {
    use holdfast_env::Files;
    let world = World::new(1);
    world.dir("d").make("f").unwrap();
    let handle = world.dir("d").handle("f").unwrap();
    world.set_attribute_room(Some(20));
    let files = world.files();
    files
        .set_attribute(&handle, c"trusted.a", &[1; 11])
        .unwrap();
    let full = files.set_attribute(&handle, c"trusted.a", &[1; 12]);
    assert_eq!(full, Err(Errno::NOSPC));
    let full = files.set_attribute(&handle, c"trusted.b", b"");
    assert_eq!(full, Err(Errno::NOSPC));
}

fn write(offset: u64, data: &[u8]) -> Request<'_> {
    Request::Write { offset, data }
}

#[test]
fn a_crash_keeps_any_subset_of_a_batch_that_no_sync_covers() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        let world = World::new(seed);
        let disk = world.disk("disk", 2048);
        let results = disk.submit(&mut [
            write(0, &[1; 512]),
            Request::Sync,
            write(512, &[2; 512]),
            write(1024, &[3; 512]),
            write(1536, &[4; 512]),
        ]);
        assert_eq!(results, [Ok(()); 5]);
        world.crash();
        let mut bytes = [0; 2048];
        world.disk("disk", 2048).read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes[0], 1, "the sync covers the first");
        outcomes.insert([bytes[512], bytes[1024], bytes[1536]]);
    }
    assert_eq!(outcomes.len(), 8, "{outcomes:?}");
}

#[test]
fn writes_of_a_batch_that_overlap_win_in_either_order_by_seed() {
    let winner = |seed| {
        let disk = World::new(seed).disk("disk", 512);
        disk.submit(&mut [write(0, &[1; 512]), write(0, &[2; 512])]);
        let mut bytes = [0; 512];
        disk.read_at(0, &mut bytes).unwrap();
        bytes[0]
    };
    let winners: BTreeSet<u8> = (0..20).map(winner).collect();
    assert_eq!(winners.len(), 2);
    assert_eq!(winner(7), winner(7));
}

#[test]
fn durable_writes_of_a_batch_are_there_once_it_has_returned() {
    for seed in 0..50 {
        let world = World::new(seed);
        let dir = world.dir("d");
        dir.open("f", Open::Create(8192)).unwrap();
        dir.sync().unwrap();
        let disk = dir.open("f", Open::WriteDurable).unwrap();
        let results = disk.submit(&mut [write(0, &[1; 4096]), write(4096, &[2; 4096])]);
        assert_eq!(results, [Ok(()); 2]);
        world.crash();
        let content = world.dir("d").read("f").unwrap();
        assert_eq!((content[4095], content[8191]), (1, 2));
    }
}

#[test]
fn after_a_failed_write_a_batch_syncs_no_more_and_reads_on() {
    let world = World::new(5);
    let disk = world.disk("disk", 4096);
    world.plan(Trouble::new(Operation::Write, Effect::Fail(Errno::IO)).after(1));
    let mut bytes = [0; 512];
    let results = disk.submit(&mut [
        write(0, &[1; 512]),
        Request::Sync,
        write(512, &[2; 512]),
        Request::Sync,
        write(1024, &[3; 512]),
        Request::Read {
            offset: 0,
            buffer: &mut bytes,
        },
    ]);
    let failed = Err(Errno::IO);
    assert_eq!(results, [Ok(()), Ok(()), failed, failed, failed, Ok(())]);
    assert_eq!(bytes, [1; 512]);
    assert_eq!(disk.sync(), failed);
    assert_eq!(disk.discard(0, 512), failed);
    world.calm();
    assert_eq!(disk.write_at(0, b"x"), failed, "recovery decides, not time");
    world.disk("disk", 4096).write_at(0, b"x").unwrap();
}
