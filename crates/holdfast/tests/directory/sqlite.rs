//! SQLite with its atomic writes: no journal, and nothing half done after a kill.

use crate::Home;
use rusqlite::Connection;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

const ACCOUNTS: i64 = 2000;
const BALANCE: i64 = 1000;

fn open(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    let mode: String = connection
        .query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "delete");
    connection
        .execute_batch("PRAGMA synchronous = FULL; PRAGMA cache_size = -64000")
        .unwrap();
    connection
}

fn set_up(path: &Path) -> Connection {
    let mut connection = open(path);
    connection
        .execute_batch(
            "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, padding TEXT);
             CREATE TABLE transfer (id INTEGER PRIMARY KEY, amount INTEGER)",
        )
        .unwrap();
    let transaction = connection.transaction().unwrap();
    for id in 0..ACCOUNTS {
        let values = (id, BALANCE, "x".repeat(200));
        transaction
            .execute("INSERT INTO account VALUES (?, ?, ?)", values)
            .unwrap();
    }
    transaction.commit().unwrap();
    connection
}

/// Moves an amount between accounts that are on different pages.
fn transfer(connection: &mut Connection, number: i64) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for step in 0..5 {
        let account = (number * 7919 + step * 397) % ACCOUNTS;
        let sum = if step == 4 { -4 } else { 1 };
        let change = "UPDATE account SET balance = balance + ? WHERE id = ?";
        transaction.execute(change, (sum, account))?;
    }
    transaction.execute("INSERT INTO transfer VALUES (?, 4)", [number])?;
    transaction.commit()
}

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
        let mut connection = open(&bank);
        let verdict: String = connection
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(verdict, "ok", "round {round}");
        let sum: i64 = connection
            .query_row("SELECT sum(balance) FROM account", [], |row| row.get(0))
            .unwrap();
        assert_eq!(sum, ACCOUNTS * BALANCE, "round {round}");
        let found: i64 = connection
            .query_row("SELECT count(*) FROM transfer", [], |row| row.get(0))
            .unwrap();
        // All that were answered, and at most the one that was not.
        assert!(
            found == next || found == next + 1,
            "round {round}: {found} of {next}"
        );
        assert!(!mount.at("bank-journal").exists());
        next = found;
        if round == 5 {
            drop(connection);
            mount.stop();
            break;
        }
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
