//! The scripts of `integrations/`: MariaDB, PostgreSQL and SQLite with what protects them from torn
//! pages switched off, while what serves their files is killed.

use crate::{Home, Mount};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// One of the scripts.
struct Script {
    name: &'static str,
    /// Bytes of a page, and a directory or file below the mount with pages that matter.
    page: u64,
    data: &'static str,
}

const MARIADB: Script = Script {
    name: "mariadb",
    page: 16 << 10,
    data: "mariadb/bank/account.ibd",
};
const POSTGRESQL: Script = Script {
    name: "postgresql",
    page: 8 << 10,
    data: "postgresql/base",
};
const SQLITE: Script = Script {
    name: "sqlite",
    page: 4 << 10,
    data: "sqlite/bank",
};

/// SQLite as the tests have it, as a library for other programs.
fn sqlite_library() -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sqlite");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/sqlite-library");
    let built = Command::new(script).arg(&place).status();
    assert!(built.expect("the script runs").success());
    place.join("libsqlite3.so.0")
}

/// A script at work.
struct Run {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    said: String,
}

impl Script {
    fn start(&self, mount: &Mount, transfers: u64) -> Run {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integrations");
        let mut command = Command::new(scripts.join(format!("{}.sh", self.name)));
        if self.name == SQLITE.name {
            command.env("SQLITE_LIBRARY", sqlite_library());
        }
        let mut child = command
            .arg(mount.at(""))
            .arg(transfers.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the script runs");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        Run {
            child,
            out,
            said: String::new(),
        }
    }

    /// Zeros over the second half of a page of the largest file of its data.
    fn tear(&self, mount: &Mount) {
        let mut files = Vec::new();
        let mut places = vec![mount.at(self.data)];
        while let Some(place) = places.pop() {
            match std::fs::read_dir(&place) {
                Ok(entries) => places.extend(entries.map(|entry| entry.unwrap().path())),
                Err(_) => files.push((std::fs::metadata(&place).unwrap().len(), place)),
            }
        }
        let (length, largest) = files.into_iter().max().unwrap();
        assert!(length > 40 * self.page, "{}", largest.display());
        let half = self.page / 2;
        let file = std::fs::File::options().write(true).open(largest).unwrap();
        file.write_all_at(&vec![0; half as usize], 30 * self.page + half)
            .unwrap();
    }
}

impl Run {
    /// Reads what it says up to a line for which `wanted` has a number; `None` at its end.
    fn until(&mut self, wanted: impl Fn(&str) -> Option<u64>) -> Option<u64> {
        loop {
            let mut line = String::new();
            if self.out.read_line(&mut line).expect("a line") == 0 {
                return None;
            }
            self.said.push_str(&line);
            if let Some(number) = wanted(line.trim()) {
                return Some(number);
            }
        }
    }

    fn end(mut self) -> (bool, String) {
        self.until(|_| None);
        let status = self.child.wait().expect("it ends");
        (status.success(), self.said)
    }
}

/// The number of a transfer that was committed.
fn committed(line: &str) -> Option<u64> {
    line.strip_prefix("committed")?.trim().parse().ok()
}

/// How many transfers were found, where sum, pages and indexes are right.
fn found(line: &str) -> Option<u64> {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["the", "sum", "holds", "after", count, "transfers"] => count.parse().ok(),
        _ => None,
    }
}

fn survives(script: &Script) {
    let home = Home::new(768);
    let mut acknowledged = 0;
    for round in 1..=2 {
        let mount = home.mount();
        let mut run = script.start(&mount, 1_000_000);
        let begins = run.until(found).unwrap_or_else(|| panic!("{}", run.said));
        // All that were acknowledged, and at most the one that was not.
        assert!(
            begins == acknowledged || begins == acknowledged + 1,
            "round {round}: {begins} of {acknowledged}"
        );
        let enough = begins + 200 * round;
        let reached = run.until(|line| committed(line).filter(|number| *number >= enough));
        assert!(reached.is_some(), "round {round}: {}", run.said);
        mount.kill();
        let (success, said) = run.end();
        assert!(!success, "it went on without its files");
        acknowledged = said.lines().filter_map(committed).max().unwrap();
    }
    let mount = home.mount();
    let mut run = script.start(&mount, 50);
    let begins = run.until(found).unwrap_or_else(|| panic!("{}", run.said));
    assert!(begins == acknowledged || begins == acknowledged + 1);
    let (success, said) = run.end();
    assert!(success, "{said}");
    assert!(said.contains("switched off:"), "{said}");

    // The checks can fail: half a page, as a power cut leaves it elsewhere.
    script.tear(&mount);
    let (success, said) = script.start(&mount, 1).end();
    assert!(!success, "half a page was not found: {said}");
    mount.stop();
    home.check();
}

#[test]
fn mariadb_without_double_write_survives_kills_of_its_mount() {
    survives(&MARIADB);
}

#[test]
fn postgresql_without_full_pages_survives_kills_of_its_mount() {
    survives(&POSTGRESQL);
}

#[test]
fn sqlite_without_a_journal_survives_kills_of_its_mount() {
    survives(&SQLITE);
}
