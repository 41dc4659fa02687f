//! SQLite: a bank whose money has to be all there. Without a journal on a volume, by its atomic writes;
//! with one on ext4; and with none on ext4, where the cuts have to find it.

use crate::points::{self, Point};
use crate::processes::{Mounted, Serving, ends_with};
use crate::recording::{Marks, Recording};
use crate::shown::{Served, Shown};
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use volume::directory::Tree;
use volume::trace::Cut;
use volume::{Options, Volume};

const ACCOUNTS: i64 = 2000;
const BALANCE: i64 = 1000;
const TRANSFERS: i64 = 150;

/// How a database is opened.
#[derive(Clone, Copy)]
struct Mode {
    journal: &'static str,
    synchronous: &'static str,
}

/// As on a volume: with atomic writes there is no journal in this mode.
const ATOMIC: Mode = Mode {
    journal: "delete",
    synchronous: "FULL",
};

/// With a journal. At FULL its removal, which is the commit, is not synced, and a cut may lose what was
/// answered (<https://www.sqlite.org/pragma.html#pragma_synchronous>): this test found that.
const JOURNAL: Mode = Mode {
    journal: "delete",
    synchronous: "EXTRA",
};

/// With nothing that keeps a transaction whole.
const BARE: Mode = Mode {
    journal: "off",
    synchronous: "FULL",
};

fn open(path: &Path, mode: Mode) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    let pragma = format!("PRAGMA journal_mode = {}", mode.journal);
    let found: String = connection.query_row(&pragma, [], |row| row.get(0))?;
    assert_eq!(found, mode.journal);
    let pragma = format!("PRAGMA synchronous = {}", mode.synchronous);
    connection.execute_batch(&pragma)?;
    connection.execute_batch("PRAGMA cache_size = -64000")?;
    Ok(connection)
}

fn set_up(path: &Path) {
    let mut connection = open(path, ATOMIC).unwrap();
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
}

/// Moves an amount between accounts that are on different pages.
fn transfer(connection: &mut Connection, number: i64) {
    let transaction = connection.transaction().unwrap();
    for step in 0..5 {
        let account = (number * 7919 + step * 397) % ACCOUNTS;
        let sum = if step == 4 { -4 } else { 1 };
        let change = "UPDATE account SET balance = balance + ? WHERE id = ?";
        transaction.execute(change, (sum, account)).unwrap();
    }
    transaction
        .execute("INSERT INTO transfer VALUES (?, 4)", [number])
        .unwrap();
    transaction.commit().unwrap();
}

fn work(path: &Path, mode: Mode, marks: &Marks) {
    let mut connection = open(path, mode).unwrap();
    marks.mark("0");
    for number in 1..=TRANSFERS {
        transfer(&mut connection, number);
        marks.mark(&number.to_string());
    }
}

/// What is wrong with a bank after a cut before which so many transfers were answered.
fn problem(path: &Path, mode: Mode, done: i64) -> Option<String> {
    let look = || -> rusqlite::Result<(String, i64, i64)> {
        let connection = open(path, mode)?;
        let ask = |question| connection.query_row(question, [], |row| row.get(0));
        let verdict = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        let sum = ask("SELECT sum(balance) FROM account")?;
        Ok((verdict, sum, ask("SELECT count(*) FROM transfer")?))
    };
    match look() {
        Err(error) => Some(error.to_string()),
        Ok((verdict, ..)) if verdict != "ok" => Some(verdict),
        Ok((_, sum, _)) if sum != ACCOUNTS * BALANCE => Some(format!("the sum is {sum}")),
        // All that were answered, and at most the one that was not.
        Ok((.., found)) if found != done && found != done + 1 => {
            Some(format!("{found} transfers of {done}"))
        }
        Ok(_) => None,
    }
}

#[test]
fn a_bank_without_a_journal_on_a_volume_has_its_money_after_every_cut() {
    let recording = Recording::new(96);
    let create = ["volume", "create", &recording.image, "--directory"];
    ends_with(0, &[&create[..], &["--segment-bytes", "256K"]].concat());
    let point = recording.point();
    let bank = Path::new(&point).join("bank");
    let mount = |disk: &str| Serving::start(&["volume", "mount", disk, &point]);
    let serving = mount(&recording.image);
    set_up(&bank);
    serving.stop();
    let recorder = recording.start(&[]);
    let serving = mount(recorder.file());
    work(&bank, ATOMIC, &recorder.marks());
    serving.stop();
    recorder.stop();

    points::each(&recording, points::wanted(300), |point, cut| {
        let name = point.name();
        let volume = Volume::open(vec![Arc::new(cut.image)], Options::default());
        let volume = volume.unwrap_or_else(|error| panic!("{name}: {error}"));
        let report = volume.check(&mut |_, _| {}).expect("it can be read");
        assert!(report.damaged.is_empty(), "{name}: {:?}", report.damaged);
        let tree = Arc::new(Tree::open(volume).expect("a tree"));
        let served = Served::new(tree, &recording.cut());
        let bank = Path::new(&recording.cut()).join("bank");
        if let Some(problem) = problem(&bank, ATOMIC, point.done) {
            panic!("{name}: {problem}");
        }
        served.stop();
    });
}

/// A bank on ext4 that was recorded.
fn on_ext4(mode: Mode) -> Recording {
    let recording = Recording::new(64);
    recording.prepare_ext4(|mounted| set_up(&mounted.at("bank")));
    let recorder = recording.start(&["--loop"]);
    let mounted = Mounted::new(&[recorder.device()], &recording.point());
    work(&mounted.at("bank"), mode, &recorder.marks());
    mounted.unmount();
    recorder.stop();
    recording
}

/// What is wrong with it on a cut.
fn problem_on_ext4(recording: &Recording, mode: Mode, point: &Point, cut: Cut) -> Option<String> {
    let shown = Shown::new(cut.image, &recording.cut());
    let mounted = Mounted::new(&[&shown.device], &recording.tree());
    let problem = problem(&mounted.at("bank"), mode, point.done);
    mounted.unmount();
    problem
}

#[test]
fn a_bank_with_a_journal_on_ext4_has_its_money_after_every_cut() {
    let recording = on_ext4(JOURNAL);
    points::each(&recording, points::wanted(40), |point, cut| {
        if let Some(problem) = problem_on_ext4(&recording, JOURNAL, point, cut) {
            panic!("{}: {problem}", point.name());
        }
    });
}

#[test]
fn a_bank_without_a_journal_on_ext4_is_found() {
    let recording = on_ext4(BARE);
    points::need_found(&recording, |point, cut| {
        problem_on_ext4(&recording, BARE, point, cut).is_some()
    });
}
