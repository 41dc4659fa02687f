//! SQLite under transfers of five pages each, by one client.

use super::server;
use super::{Amount, Contest, Database, Missing, Pace, Sample, Side, ground};
use crate::bench::volume::ground::Ground;
use anyhow::Context as _;
use std::path::{Path, PathBuf};

pub(super) const CASE: &str = "sqlite-transfers";
pub(super) const DELETE: &str = "ext4, delete";
pub(super) const WAL: &str = "ext4, WAL";

/// The load: a program for Python.
const LOAD: &str = include_str!("load.py");

pub(super) fn contest(
    scratch: &Path,
    amount: Amount,
    library: Option<&Path>,
) -> anyhow::Result<Result<Contest, Missing>> {
    if let Some(program) = server::missing(&["python3"]) {
        return Ok(Err(Missing(format!("SQLite: {program} is not installed"))));
    }
    let Some(library) = library else {
        return Ok(Err(Missing(
            "SQLite: name a library with atomic writes by --sqlite-library (scripts/sqlite-library builds one)"
                .to_owned(),
        )));
    };
    // Its name has to be the one that Python looks for.
    let libraries = scratch.join("library");
    std::fs::create_dir(&libraries)?;
    std::fs::copy(library, libraries.join("libsqlite3.so.0"))
        .with_context(|| format!("cannot read {}", library.display()))?;
    let side = |name: &'static str, short: &str, mode: &'static str, worth| {
        let database = Sqlite {
            ground: ground(scratch, short, mode == "batch", amount)?,
            libraries: libraries.clone(),
            mode,
            amount,
        };
        anyhow::Ok(Side {
            name,
            worth,
            database: Box::new(database),
            samples: Vec::new(),
        })
    };
    let safe = "a commit is on the medium, whole";
    Ok(Ok(Contest {
        case: CASE,
        note: "one client, transactions of five pages, synchronous=FULL; written to the close of the database",
        sides: vec![
            side("ours, atomic writes", "ours", "batch", safe)?,
            side(DELETE, "delete", "delete", safe)?,
            side(WAL, "wal", "wal", safe)?,
            side(
                "ext4, no journal",
                "off",
                "off",
                "a commit is on the medium, but a crash may leave half of one",
            )?,
        ],
    }))
}

struct Sqlite {
    ground: Ground,
    libraries: PathBuf,
    mode: &'static str,
    amount: Amount,
}

impl Sqlite {
    fn load(&self, seconds: u64) -> anyhow::Result<String> {
        let mut python = server::client("python3");
        python.env("LD_LIBRARY_PATH", &self.libraries);
        python.args(["-c", LOAD]);
        python.arg(self.ground.directory().join("bank"));
        server::output(python.args([self.mode, &seconds.to_string()]))
    }
}

impl Database for Sqlite {
    fn prepare(&self) -> anyhow::Result<()> {
        self.load(0).map(drop)
    }

    fn measure(&self) -> anyhow::Result<Sample> {
        let before = self.ground.written()?;
        let said = self.load(self.amount.seconds)?;
        let written = self.ground.written()?.since(before);
        Ok(pace(&said)?.with(written))
    }
}

fn pace(said: &str) -> anyhow::Result<Pace> {
    let mut words = said.split_whitespace();
    let mut next = || words.next().context("the load says too little");
    Ok(Pace {
        transactions: next()?.parse()?,
        seconds: next()?.parse()?,
        p90: next()?.parse()?,
        p99: next()?.parse()?,
    })
}
