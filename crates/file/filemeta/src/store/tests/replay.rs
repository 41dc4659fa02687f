//! What an open hands back and what it skips.

use super::history::{ATTRIBUTE, ID, OPTIONS, owners, places, tag};
use crate::{BLOCK_BYTES, CONTENT_BYTES, MetaError, Options, QUEUED_BYTES_MAX, Store};
use env::sim::World;

fn reopen(world: &World) -> crate::Opened {
    world.kill();
    Store::open(&places(world), Some(ID), OPTIONS).unwrap()
}

#[test]
fn after_a_close_there_is_nothing_to_replay() {
    let world = World::new(1);
    let owners = owners(&world);
    let store = Store::create(&places(&world), ID, ATTRIBUTE, OPTIONS).unwrap();
    let mut request = store.request();
    request.put(&owners[0], tag(1), b"content").unwrap();
    request.commit().unwrap();
    store.close().unwrap();
    let opened = reopen(&world);
    assert_eq!(opened.replay.requests, 0);
    assert_eq!(opened.store.get(&owners[0], tag(1)).unwrap(), b"content");
}

#[test]
fn a_note_comes_back_until_it_is_done_and_keeps_the_journal() {
    let world = World::new(1);
    let owners = owners(&world);
    let store = Store::create(&places(&world), ID, ATTRIBUTE, OPTIONS).unwrap();
    let mut request = store.request();
    request.set_value(&owners[0], tag(1), b"v");
    request.note(7, b"punch a hole").note(8, b"and this");
    let ticket = request.commit().unwrap();
    store.checkpoint().unwrap();
    let opened = reopen(&world);
    assert_eq!(opened.replay.requests, 0, "the change itself is in place");
    let kinds: Vec<u16> = opened.notes.iter().map(|note| note.kind).collect();
    assert_eq!(kinds, [7, 8]);
    assert_eq!(opened.notes[0].payload, b"punch a hole");
    assert!(opened.notes.iter().all(|note| note.ticket == ticket));
    opened.store.done(ticket);
    opened.store.flush().unwrap();
    assert!(reopen(&world).notes.is_empty());
}

#[test]
fn notes_that_nobody_finishes_fill_the_journal_and_are_named() {
    let world = World::new(1);
    let owners = owners(&world);
    let small = Options {
        segment_bytes: 32 << 10,
        journal_bytes: 32 << 10,
    };
    let store = Store::create(&places(&world), ID, ATTRIBUTE, small).unwrap();
    let mut request = store.request();
    request.note(1, b"never");
    let never = request.commit().unwrap();
    let write = || {
        let mut request = store.request();
        request.put(&owners[0], tag(1), &[7; 6000]).unwrap();
        request.put(&owners[1], tag(1), &vec![8; 6000]).unwrap();
        request.clear(&owners[0], tag(1));
        request.commit()
    };
    let error = (0..100).find_map(|_| write().err()).expect("it fills up");
    assert!(matches!(error, MetaError::JournalFull { .. }), "{error}");
    assert!(matches!(write(), Err(MetaError::JournalFull { .. })));
    store.done(never);
    write().unwrap();
}

#[test]
fn a_request_longer_than_a_segment_is_still_one() {
    let world = World::new(3);
    let owners = owners(&world);
    let store = Store::create(&places(&world), ID, ATTRIBUTE, OPTIONS).unwrap();
    let mut request = store.request();
    for (index, owner) in owners.iter().enumerate() {
        request.put(owner, tag(1), &[index as u8; 60_000]).unwrap();
    }
    request.commit().unwrap();
    drop(store);
    world.crash();
    let opened = Store::open(&places(&world), Some(ID), OPTIONS).unwrap();
    assert_eq!(opened.replay.requests, 1);
    for (index, owner) in owners.iter().enumerate() {
        let content = opened.store.get(owner, tag(1)).unwrap();
        assert_eq!(content, [index as u8; 60_000]);
    }
}

#[test]
fn requests_that_nobody_commits_are_committed_before_their_blocks_fill_the_memory() {
    let world = World::new(1);
    let owners = owners(&world);
    let large = Options {
        segment_bytes: 1 << 20,
        journal_bytes: 4 << 20,
    };
    let store = Store::create(&places(&world), ID, ATTRIBUTE, large).unwrap();
    let blocks = (QUEUED_BYTES_MAX / BLOCK_BYTES + 500) as u64;
    let mut request = store.request();
    let content = vec![0; blocks as usize * BLOCK_BYTES];
    request.put(&owners[0], tag(1), &content).unwrap();
    request.commit().unwrap();
    let mut most = 0;
    for block in 0..blocks {
        let mut request = store.request();
        request.patch(&owners[0], tag(1), block * CONTENT_BYTES, &[1]);
        request.submit().unwrap();
        most = most.max(store.status().queued_requests);
    }
    let room = QUEUED_BYTES_MAX / BLOCK_BYTES;
    assert!(most <= room, "{most} blocks in memory");
    assert!(most > room / 2, "a block counts once: {most}");
}
