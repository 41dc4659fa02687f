//! SQLite with its atomic writes: no journal, and nothing half done after a kill.

use crate::Home;
use crate::accounts::{self, ATOMIC, open, set_up, transfer};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// The number that a new file gets: one more than the last that anybody has made.
fn next_inode(directory: &Path) -> u64 {
    let probe = directory.join("probe");
    fs::write(&probe, "").unwrap();
    let number = fs::metadata(&probe).unwrap().ino();
    fs::remove_file(&probe).unwrap();
    number
}

#[test]
fn transactions_make_no_journal() {
    let home = Home::new(96);
    let mount = home.mount();
    let mut connection = set_up(&mount.at("bank"));
    let options: Vec<String> = {
        let mut options = connection.prepare("PRAGMA compile_options").unwrap();
        let options = options.query_map([], |row| row.get(0)).unwrap();
        options.flatten().collect()
    };
    assert!(
        options
            .iter()
            .any(|option| option == "ENABLE_BATCH_ATOMIC_WRITE"),
        "{options:?}"
    );

    let before = next_inode(&home.directory());
    for number in 0..50 {
        transfer(&mut connection, number).unwrap();
    }
    // Numbers are not used again, so nothing was made between the two.
    assert_eq!(next_inode(&home.directory()), before + 1);

    // The proof can fail: a transaction over two databases takes journals.
    let other = mount.at("other");
    connection
        .execute("ATTACH ? AS other", [other.to_str().unwrap()])
        .unwrap();
    connection
        .execute_batch("CREATE TABLE other.note (text)")
        .unwrap();
    let before = next_inode(&home.directory());
    let both = connection.transaction().unwrap();
    both.execute("UPDATE account SET balance = balance WHERE id = 1", [])
        .unwrap();
    both.execute("INSERT INTO other.note VALUES ('x')", [])
        .unwrap();
    both.commit().unwrap();
    assert!(next_inode(&home.directory()) > before + 1);

    drop(connection);
    mount.stop();
    home.check();
}

/// How far the writer has come.
#[derive(Default)]
struct Progress {
    committed: AtomicI64,
    lock: Mutex<()>,
    changed: Condvar,
}

#[test]
fn after_a_kill_in_the_middle_of_transactions_the_bank_has_its_money() {
    let home = Home::new(96);
    let mount = home.mount();
    drop(set_up(&mount.at("bank")));
    mount.stop();
    let mut next = 0;
    for round in 0..6_i64 {
        let mount = home.mount();
        let bank = mount.at("bank");
        let found = accounts::look(&bank, ATOMIC, next);
        let found = found.unwrap_or_else(|problem| panic!("round {round}: {problem}"));
        assert!(!mount.at("bank-journal").exists());
        next = found;
        if round == 5 {
            mount.stop();
            break;
        }
        let mut connection = open(&bank, ATOMIC).unwrap();
        let progress = Arc::new(Progress::default());
        progress.committed.store(next, Ordering::SeqCst);
        let shared = progress.clone();
        let writer = std::thread::spawn(move || {
            let mut number = shared.committed.load(Ordering::SeqCst);
            // Until what serves the mount is gone.
            while transfer(&mut connection, number).is_ok() {
                number += 1;
                let _lock = shared.lock.lock().unwrap();
                shared.committed.store(number, Ordering::SeqCst);
                shared.changed.notify_all();
            }
        });
        let enough = next + 10 + 7 * round;
        let mut lock = progress.lock.lock().unwrap();
        while progress.committed.load(Ordering::SeqCst) < enough && !writer.is_finished() {
            let second = std::time::Duration::from_secs(1);
            lock = progress.changed.wait_timeout(lock, second).unwrap().0;
        }
        drop(lock);
        mount.kill();
        writer.join().unwrap();
        next = progress.committed.load(Ordering::SeqCst);
        assert!(next >= enough, "the writer failed before the kill");
    }
    home.check();
}
