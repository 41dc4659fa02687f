//! A bank in SQLite whose money has to be all there.

use rusqlite::Connection;
use std::path::Path;

const ACCOUNTS: i64 = 2000;
const BALANCE: i64 = 1000;

/// How a database is opened.
#[derive(Clone, Copy)]
pub(crate) struct Mode {
    pub(crate) journal: &'static str,
    pub(crate) synchronous: &'static str,
}

/// As on a volume: with atomic writes there is no journal in this mode.
pub(crate) const ATOMIC: Mode = Mode {
    journal: "delete",
    synchronous: "FULL",
};

pub(crate) fn open(path: &Path, mode: Mode) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    let pragma = format!("PRAGMA journal_mode = {}", mode.journal);
    let found: String = connection.query_row(&pragma, [], |row| row.get(0))?;
    assert_eq!(found, mode.journal);
    let pragma = format!("PRAGMA synchronous = {}", mode.synchronous);
    connection.execute_batch(&pragma)?;
    connection.execute_batch("PRAGMA cache_size = -64000")?;
    Ok(connection)
}

/// Makes a new one.
pub(crate) fn set_up(path: &Path) -> Connection {
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
    connection
}

/// Moves an amount between accounts that are on different pages.
pub(crate) fn transfer(connection: &mut Connection, number: i64) -> rusqlite::Result<()> {
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

/// How many transfers there are after a cut or a kill before which so many were answered.
///
/// # Errors
/// What is wrong with the bank.
pub(crate) fn look(path: &Path, mode: Mode, done: i64) -> Result<i64, String> {
    let ask = || -> rusqlite::Result<(String, i64, i64)> {
        let connection = open(path, mode)?;
        let ask = |question| connection.query_row(question, [], |row| row.get(0));
        let verdict = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        let sum = ask("SELECT sum(balance) FROM account")?;
        Ok((verdict, sum, ask("SELECT count(*) FROM transfer")?))
    };
    match ask() {
        Err(error) => Err(error.to_string()),
        Ok((verdict, ..)) if verdict != "ok" => Err(verdict),
        Ok((_, sum, _)) if sum != ACCOUNTS * BALANCE => Err(format!("the sum is {sum}")),
        // All that were answered, and at most the one that was not.
        Ok((.., found)) if found != done && found != done + 1 => {
            Err(format!("{found} transfers of {done}"))
        }
        Ok((.., found)) => Ok(found),
    }
}
