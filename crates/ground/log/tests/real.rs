//! The log on a real directory.

use env::Dir;
use env::real::RealDir;
use holdfast_log::{Log, LogError, LogId, Options, Sequence};
use std::sync::Arc;

const ID: LogId = LogId(0x5eed);
const SMALL: Options = Options {
    segment_bytes: 64 << 10,
};

fn real() -> (tempfile::TempDir, Arc<dyn Dir>) {
    let home = tempfile::tempdir().unwrap();
    let dir = Arc::new(RealDir::open(home.path()).unwrap());
    (home, dir)
}

#[test]
fn committed_records_come_back_in_order_over_many_segments() {
    let (_home, dir) = real();
    let log = Log::create(dir.clone(), "j", ID, SMALL).unwrap();
    let mut last = None;
    for i in 0..300u32 {
        let payload = vec![i as u8; (i * 37 % 3000) as usize];
        last = Some(log.append(i as u16, &payload).unwrap());
        if i % 7 == 0 {
            log.commit(last.unwrap()).unwrap();
        }
    }
    log.commit(last.unwrap()).unwrap();
    drop(log);
    for _ in 0..3 {
        let (log, records) = Log::open(dir.clone(), "j", ID, SMALL).unwrap();
        assert_eq!(records.len(), 300);
        for (i, record) in records.iter().enumerate() {
            assert_eq!(record.sequence, Sequence(i as u64 + 1));
            assert_eq!(record.payload, vec![i as u8; i * 37 % 3000]);
        }
        assert_eq!(log.next_sequence(), Sequence(301));
    }
}

#[test]
fn a_truncated_log_recycles_its_segments() {
    let (_home, dir) = real();
    let log = Log::create(dir.clone(), "j", ID, SMALL).unwrap();
    for i in 0..200u32 {
        let sequence = log.append(1, &[i as u8; 3000]).unwrap();
        log.commit(sequence).unwrap();
        log.truncate_before(sequence).unwrap();
        assert!(dir.list().unwrap().len() <= 5, "{:?}", dir.list());
    }
    let held = log.held();
    drop(log);
    let (_, records) = Log::open(dir.clone(), "j", ID, SMALL).unwrap();
    assert_eq!(records.first().unwrap().sequence, held.first);
    assert_eq!(records.last().unwrap().sequence, Sequence(200));
}

#[test]
fn threads_share_device_writes_and_all_get_their_records() {
    let (_home, dir) = real();
    let log = Log::create(dir.clone(), "j", ID, Options::default()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8u16 {
            let log = &log;
            scope.spawn(move || {
                for i in 0..50u8 {
                    let sequence = log.append(thread, &[i; 100]).unwrap();
                    log.commit(sequence).unwrap();
                    assert!(log.durable_sequence() > sequence);
                }
            });
        }
    });
    drop(log);
    let (_, records) = Log::open(dir, "j", ID, Options::default()).unwrap();
    for thread in 0..8u16 {
        let mine: Vec<u8> = records
            .iter()
            .filter(|record| record.kind == thread)
            .map(|record| record.payload[0])
            .collect();
        assert_eq!(mine, (0..50).collect::<Vec<u8>>());
    }
}

#[test]
fn misuse_is_refused_with_a_reason() {
    let (_home, dir) = real();
    let open = |id, options| Log::open(dir.clone(), "j", id, options).map(|_| ());
    assert!(matches!(open(ID, SMALL), Err(LogError::Missing { .. })));
    let log = Log::create(dir.clone(), "j", ID, SMALL).unwrap();
    assert!(matches!(
        Log::create(dir.clone(), "j", ID, SMALL),
        Err(LogError::Exists { .. })
    ));
    assert!(matches!(
        log.append(0, &vec![0; 64 << 10]),
        Err(LogError::TooLong { .. })
    ));
    assert!(matches!(
        log.commit(Sequence(1)),
        Err(LogError::NotAppended { .. })
    ));
    let odd = Options {
        segment_bytes: 9000,
    };
    assert!(matches!(open(ID, odd), Err(LogError::SegmentBytes { .. })));
    drop(log);
    assert!(matches!(
        open(LogId(1), SMALL),
        Err(LogError::Corrupt { .. })
    ));
}

#[test]
fn the_longest_record_fits_and_comes_back() {
    let (_home, dir) = real();
    let options = Options {
        segment_bytes: 4 << 20,
    };
    let log = Log::create(dir.clone(), "j", ID, options).unwrap();
    let longest = vec![7; holdfast_log::RECORD_BYTES_MAX];
    for _ in 0..9 {
        log.append(1, &longest).unwrap();
    }
    log.commit(Sequence(9)).unwrap();
    drop(log);
    let (_, records) = Log::open(dir, "j", ID, options).unwrap();
    assert!(records.iter().all(|record| record.payload == longest));
    assert_eq!(records.len(), 9);
}
