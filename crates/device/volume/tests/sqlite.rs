//! SQLite on a real mount whose disk is simulated: every power cut of a run of transactions, and what
//! SQLite itself says of what is left. Needs root and /dev/fuse.

extern crate holdfast_volume as volume;

use env::Disk;
use env::sim::World;
use env::sim::crash::{Failure, Notes, Options as Look, Report, search};
use mount::{Ino, Layer};
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use volume::directory::Tree;
use volume::{Options, Volume, VolumeId, directory};

const DISK_BYTES: u64 = 6 << 20;

const OPTIONS: Options = Options {
    segment_blocks: 32,
    sums_bytes_max: 0,
    packs: true,
};

const ACCOUNTS: i64 = 100;
const BALANCE: i64 = 1000;
const TRANSFERS: i64 = 25;

/// How the database is used.
#[derive(Clone, Copy, Debug)]
enum Mode {
    /// As it is to be: SQLite finds the atomic writes by itself.
    Batch,
    /// Without anything that makes a transaction whole, which must be found.
    Bare,
}

/// Transfers that were begun, and committed; -1 before the accounts were.
type Progress = (i64, i64);

fn disks(world: &World) -> Vec<Arc<dyn Disk>> {
    vec![world.disk("disk", DISK_BYTES)]
}

fn transfer(connection: &mut Connection, number: i64) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    let change = "UPDATE account SET balance = balance + ? WHERE id = ?";
    for (step, sum) in [1, 1, 1, -3].into_iter().enumerate() {
        let account = (number * 37 + step as i64 * 29) % ACCOUNTS;
        transaction.execute(change, (sum, account))?;
    }
    transaction.execute("INSERT INTO transfer VALUES (?)", [number])?;
    transaction.commit()
}

fn work(world: &World, notes: &Notes<Progress>, mode: Mode) {
    let volume = Volume::create(disks(world), VolumeId(7), OPTIONS).unwrap();
    let tree = Arc::new(Tree::create(volume).unwrap());
    let point = tempfile::tempdir().unwrap();
    let options = mount::Options::default();
    let session = mount::Session::start(tree, point.path(), &options).unwrap();
    let mut connection = Connection::open(point.path().join("bank")).unwrap();
    let (journal, synchronous) = match mode {
        Mode::Batch => ("DELETE", "FULL"),
        Mode::Bare => ("OFF", "OFF"),
    };
    let set = "PRAGMA journal_mode";
    let chosen: String =
        (connection.query_row(&format!("{set} = {journal}"), [], |row| row.get(0))).unwrap();
    assert_eq!(chosen.to_uppercase(), journal);
    let pragma = format!("PRAGMA synchronous = {synchronous}");
    connection.execute_batch(&pragma).unwrap();
    connection
        .execute_batch(
            "BEGIN; CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, padding TEXT);
             CREATE TABLE transfer (id INTEGER PRIMARY KEY)",
        )
        .unwrap();
    for id in 0..ACCOUNTS {
        let values = (id, BALANCE, "x".repeat(300));
        connection
            .execute("INSERT INTO account VALUES (?, ?, ?)", values)
            .unwrap();
    }
    connection.execute_batch("COMMIT").unwrap();
    // Nothing holds of what comes before.
    std::fs::File::open(point.path().join("bank"))
        .unwrap()
        .sync_all()
        .unwrap();
    notes.note((0, 0));
    for number in 0..TRANSFERS {
        // Without syncs none has to be there, but each that is there has to be whole.
        let durable = if let Mode::Batch = mode { number } else { 0 };
        notes.note((number + 1, durable));
        transfer(&mut connection, number).unwrap();
        if let Mode::Batch = mode {
            notes.note((number + 1, number + 1));
        }
    }
    drop(connection);
    assert!(session.unmount(std::time::Duration::from_secs(30)).unwrap());
}

/// Copies what is in the tree to files that SQLite can open.
fn copy_out(tree: &Tree, to: &Path) -> Result<(), String> {
    let list = tree.list(Ino::ROOT).map_err(|error| error.to_string())?;
    for index in 0..list.len() {
        let Some((name, _, ino)) = list.get(index) else {
            continue;
        };
        let attr = tree.attr(ino).map_err(|error| error.to_string())?;
        let mut content = vec![0; attr.size as usize];
        tree.read(ino, 0, &mut content)
            .map_err(|error| error.to_string())?;
        std::fs::write(to.join(name), content).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn look_at_bank(path: &Path, (begun, committed): Progress) -> rusqlite::Result<Result<(), String>> {
    let connection = Connection::open(path)?;
    let verdict: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    let number = |query: &str| connection.query_row(query, [], |row| row.get::<_, i64>(0));
    let sum = number("SELECT sum(balance) FROM account")?;
    let found = number("SELECT count(*) FROM transfer")?;
    Ok(if verdict != "ok" {
        Err(format!("integrity check: {verdict}"))
    } else if sum != ACCOUNTS * BALANCE {
        Err(format!("the accounts have {sum}"))
    } else if !(committed..=begun).contains(&found) {
        Err(format!("{found} transfers, not {committed} to {begun}"))
    } else {
        Ok(())
    })
}

fn check(world: &World, notes: &[Progress]) -> Result<(), String> {
    let Some(progress) = notes.last() else {
        return Ok(());
    };
    let volume = Volume::open(disks(world), OPTIONS).map_err(|error| error.to_string())?;
    let tree = Tree::open(volume).map_err(|error| error.to_string())?;
    let report = directory::check(tree.volume(), &[]).map_err(|error| error.to_string())?;
    if let Some(problem) = report.and_then(|report| report.problems.first().cloned()) {
        return Err(format!("the tree is damaged: {problem:?}"));
    }
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    copy_out(&tree, place.path())?;
    look_at_bank(&place.path().join("bank"), *progress).map_err(|error| error.to_string())?
}

fn run(seed: u64, mode: Mode) -> Result<Report, Failure> {
    let mut options = Look::new(seed);
    options.cuts_max = 150;
    options.samples_per_cut = 2;
    search(&options, |world, notes| work(world, notes, mode), check)
}

#[test]
fn after_every_power_cut_the_bank_has_its_money_and_what_it_promised() {
    let report = run(1, Mode::Batch).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.images > 200, "{report:?}");
}

#[test]
fn a_database_without_transactions_is_found_broken() {
    let failure = (1..6).find_map(|seed| run(seed, Mode::Bare).err());
    let failure = failure.expect("half a transaction was not found");
    assert!(failure.complaint.contains("the accounts have"), "{failure}");
}
