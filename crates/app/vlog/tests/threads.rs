//! The log's own threads, on a real directory: many appenders, compactions beside them.

use env::Rng;
use holdfast_vlog::{
    Compaction, Directory, Options, Position, Record, Sync, Vlog, VlogError, VlogId,
};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn options(sync: Sync) -> Options {
    Options {
        lanes: 2,
        segment_bytes: 32 << 10,
        pending_bytes_max: 64 << 10,
        sync,
        compaction: Compaction {
            dead_percent_min: 40,
            bytes_per_s_max: None,
        },
        ..Options::default()
    }
}

fn directory(home: &std::path::Path) -> Vec<Directory> {
    vec![Directory::open(home.to_str().unwrap()).unwrap()]
}

#[test]
fn threads_append_while_files_are_compacted_and_everything_is_there_afterwards() {
    for sync in [
        Sync::Always,
        Sync::Every(Duration::from_millis(20)),
        Sync::Never,
    ] {
        let home = tempfile::tempdir().unwrap();
        Vlog::create("db", directory(home.path()), VlogId(5)).unwrap();
        let (log, _) = Vlog::open_all("db", directory(home.path()), options(sync)).unwrap();
        let expected = Mutex::new(BTreeMap::new());
        std::thread::scope(|scope| {
            for stream in 0..4u32 {
                let (log, expected) = (&log, &expected);
                scope.spawn(move || {
                    let mut rng = Rng::new(stream.into());
                    let mut entries: BTreeMap<u64, (Position, Vec<u8>)> = BTreeMap::new();
                    for step in 0..3000u64 {
                        let key = rng.below(200);
                        let before = entries.get(&key).map(|(position, _)| *position);
                        if rng.chance(1, 8)
                            && let Some(position) = before
                        {
                            log.kill(stream, position).unwrap();
                            entries.remove(&key);
                            continue;
                        }
                        let mut payload = format!("{key} {step}").into_bytes();
                        payload.resize(16 + rng.index(100), b' ');
                        let (position, receipt) = log.append(stream, &payload, before).unwrap();
                        entries.insert(key, (position, payload));
                        if rng.chance(1, 500) {
                            log.durable(receipt).unwrap();
                            assert!(log.is_durable(receipt));
                        }
                    }
                    let mut expected = expected.lock().unwrap();
                    let payloads = entries.into_values().map(|(_, payload)| payload);
                    expected.extend(payloads.map(|payload| ((stream, payload), ())));
                });
            }
        });
        for receipt in log.receipts() {
            log.durable(receipt).unwrap();
        }
        while log.compact(40).unwrap().is_some() {}
        let status = log.status();
        let expected = expected.into_inner().unwrap();
        assert_eq!(status.records_live as usize, expected.len());
        assert!(status.compactions > 0, "{status:?}");
        assert_eq!((&status.refuses, &status.compaction_failed), (&None, &None));
        drop(log);
        let (log, records) = Vlog::open_all("db", directory(home.path()), options(sync)).unwrap();
        let found: BTreeMap<_, _> = records
            .into_iter()
            .map(|record| ((record.stream, record.payload), ()))
            .collect();
        assert_eq!(found, expected);
        log.close().unwrap();
    }
}

#[test]
fn whoever_is_to_be_told_is_told_that_more_is_durable() {
    let home = tempfile::tempdir().unwrap();
    Vlog::create("db", directory(home.path()), VlogId(5)).unwrap();
    let told = std::sync::Arc::new((parking_lot::Mutex::new(0), parking_lot::Condvar::new()));
    let teller = told.clone();
    let options = Options {
        wake: Some(std::sync::Arc::new(move |_lane| {
            *teller.0.lock() += 1;
            teller.1.notify_all();
        })),
        ..options(Sync::Always)
    };
    let (log, _) = Vlog::open_all("db", directory(home.path()), options).unwrap();
    let (_, receipt) = log.append(1, b"record", None).unwrap();
    let mut count = told.0.lock();
    while !log.is_durable(receipt) {
        let waited = told.1.wait_for(&mut count, Duration::from_secs(60));
        assert!(
            !waited.timed_out() || log.is_durable(receipt),
            "nobody told"
        );
    }
}

#[test]
fn a_position_is_good_once() {
    let home = tempfile::tempdir().unwrap();
    Vlog::create("db", directory(home.path()), VlogId(5)).unwrap();
    let (log, _) = Vlog::open_all("db", directory(home.path()), options(Sync::Never)).unwrap();
    let (position, _) = log.append(0, b"record", None).unwrap();
    log.kill(0, position).unwrap();
    let again = log.append(0, b"other", Some(position)).unwrap_err();
    assert_eq!(again, VlogError::NotLive);
    let nowhere = Position::from_bytes([0xff; 6]);
    assert_eq!(log.kill(0, nowhere), Err(VlogError::NotLive));
    assert_eq!(log.status().records_live, 0);
}

#[test]
fn large_records_and_large_groups_have_files_of_their_own() {
    let home = tempfile::tempdir().unwrap();
    Vlog::create("db", directory(home.path()), VlogId(5)).unwrap();
    let (log, _) = Vlog::open_all("db", directory(home.path()), options(Sync::Never)).unwrap();
    let large = vec![7; 3 << 20];
    let (position, _) = log.append(3, &large, None).unwrap();
    log.append(3, b"small", None).unwrap();
    let (_, receipt) = log.append(3, &large[1..], Some(position)).unwrap();
    log.durable(receipt).unwrap();
    while log.compact(10).unwrap().is_some() {}
    drop(log);
    let seen = AtomicU64::new(0);
    let sink = |record: Record<'_>| {
        seen.fetch_add(record.payload.len() as u64, Ordering::Relaxed);
    };
    let log = Vlog::open("db", directory(home.path()), options(Sync::Never), &sink).unwrap();
    assert_eq!(seen.into_inner(), (3 << 20) - 1 + 5);
    drop(log);
}

#[test]
fn entries_that_come_and_go_leave_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    Vlog::create("db", directory(home.path()), VlogId(5)).unwrap();
    let options = Options {
        threads: false,
        ..options(Sync::Never)
    };
    let (log, _) = Vlog::open_all("db", directory(home.path()), options).unwrap();
    // One that stays, in the oldest segment: kills do not wait for it.
    log.append(0, b"stays", None).unwrap();
    let mut most = 0;
    for round in 0..40_000u64 {
        let (position, _) = log.append(0, &round.to_le_bytes(), None).unwrap();
        log.kill(0, position).unwrap();
        if round % 500 == 0 {
            log.flush(0).unwrap();
            while log.compact(50).unwrap().is_some() {}
            most = most.max(log.status().bytes);
        }
    }
    let status = log.status();
    assert_eq!(status.records_live, 1);
    assert!(status.bytes_written > 30 * most, "{most} {status:?}");
    assert!(status.segments <= 3 && status.files <= 3, "{status:?}");
}
