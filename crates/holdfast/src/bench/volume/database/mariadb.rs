//! MariaDB under `sysbench oltp_write_only`.

use super::server::{self, Server};
use super::{Amount, Contest, Database, Missing, Pace, Sample, Side, ground};
use crate::bench::process;
use crate::bench::volume::ground::Ground;
use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) const CASE: &str = "mariadb-oltp_write_only";
pub(super) const PEER: &str = "ext4, double write";
const THREADS: &str = "8";

pub(super) fn contest(scratch: &Path, amount: Amount) -> anyhow::Result<Result<Contest, Missing>> {
    let programs = [
        "mariadbd",
        "mariadb-install-db",
        "mariadb-admin",
        "sysbench",
    ];
    if let Some(program) = server::missing(&programs) {
        return Ok(Err(Missing(format!(
            "MariaDB: {program} is not installed (Debian: mariadb-server-core, mariadb-client, sysbench)"
        ))));
    }
    let side = |name: &'static str, short: &str, ours: bool, double_write: bool, worth| {
        let run = scratch.join(format!("{short}.run"));
        server::make_directory(&run)?;
        let database = MariaDb {
            ground: ground(scratch, short, ours, amount)?,
            run,
            double_write,
            amount,
        };
        anyhow::Ok(Side {
            name,
            worth,
            database: Box::new(database),
            samples: Vec::new(),
        })
    };
    let safe = "a commit is on the medium, and no page is torn after a crash";
    Ok(Ok(Contest {
        case: CASE,
        note: "InnoDB, 8 clients, a buffer pool smaller than the tables, innodb_flush_log_at_trx_commit=1; \
               written from the begin of the load to the end of a clean shutdown",
        sides: vec![
            side("ours, no double write", "ours", true, false, safe)?,
            side(PEER, "double", false, true, safe)?,
            side(
                "ext4, no double write",
                "single",
                false,
                false,
                "a commit is on the medium, but a crash may leave half a page",
            )?,
        ],
    }))
}

struct MariaDb {
    ground: Ground,
    run: PathBuf,
    double_write: bool,
    amount: Amount,
}

impl MariaDb {
    fn data(&self) -> PathBuf {
        self.ground.directory().join("data")
    }

    fn socket(&self) -> PathBuf {
        self.run.join("socket")
    }

    fn log(&self) -> PathBuf {
        self.run.join("log")
    }

    fn client(&self, program: &str) -> Command {
        let mut command = server::client(program);
        command.args(["--no-defaults", "--user=root"]);
        command.arg(format!("--socket={}", self.socket().display()));
        command
    }

    fn start(&self) -> anyhow::Result<Server> {
        let mut command = server::as_user("mariadbd");
        command
            .arg("--no-defaults")
            .arg(format!("--datadir={}", self.data().display()))
            .arg(format!("--socket={}", self.socket().display()))
            .arg("--skip-networking")
            .arg(match self.double_write {
                true => "--innodb-doublewrite=ON",
                false => "--innodb-doublewrite=OFF",
            })
            .args([
                "--innodb-flush-method=O_DIRECT",
                "--innodb-flush-neighbors=0",
                "--innodb-log-write-ahead-size=4096",
                "--innodb-flush-log-at-trx-commit=1",
                "--innodb-buffer-pool-size=64M",
                "--innodb-log-file-size=256M",
                "--innodb-buffer-pool-load-at-startup=OFF",
                "--innodb-buffer-pool-dump-at-shutdown=OFF",
            ]);
        Server::start(&mut command, &self.log(), || {
            let mut ping = self.client("mariadb-admin");
            Ok(ping.args(["--silent", "ping"]).output()?.status.success())
        })
    }

    fn sysbench(&self, more: &[&str]) -> Command {
        let (tables, rows) = if self.amount.quick {
            (2, 50_000)
        } else {
            (4, 250_000)
        };
        let mut command = server::client("sysbench");
        command
            .args(["oltp_write_only", "--db-driver=mysql", "--mysql-user=root"])
            .arg(format!("--mysql-socket={}", self.socket().display()))
            .arg("--mysql-db=sbtest")
            .arg(format!("--tables={tables}"))
            .arg(format!("--table-size={rows}"))
            .args(more);
        command
    }
}

impl Database for MariaDb {
    fn prepare(&self) -> anyhow::Result<()> {
        server::make_directory(&self.data())?;
        let mut install = server::as_user("mariadb-install-db");
        install
            .args(["--no-defaults", "--skip-test-db"])
            .arg(format!("--datadir={}", self.data().display()))
            .arg("--auth-root-authentication-method=normal");
        process::run(&mut install, server::LIMIT, &self.log())?;
        let server = self.start()?;
        let mut create = self.client("mariadb-admin");
        process::run(
            create.args(["create", "sbtest"]),
            server::LIMIT,
            &self.log(),
        )?;
        process::run(
            &mut self.sysbench(&["--threads=1", "prepare"]),
            server::LIMIT,
            &self.log(),
        )?;
        server.stop(Signal::TERM)
    }

    fn measure(&self) -> anyhow::Result<Sample> {
        let server = self.start()?;
        let before = self.ground.written()?;
        let events = format!("--events={}", self.amount.transactions);
        let threads = format!("--threads={THREADS}");
        let said = server::output(&mut self.sysbench(&[
            "--histogram=on",
            "--rand-type=uniform",
            &events,
            "--time=0",
            &threads,
            "run",
        ]))?;
        server.stop(Signal::TERM)?;
        let written = self.ground.written()?.since(before);
        Ok(pace(&said)?.with(written))
    }
}

/// Reads what sysbench says: transactions, total time, and a histogram of milliseconds.
fn pace(said: &str) -> anyhow::Result<Pace> {
    let after = |key: &str| -> anyhow::Result<&str> {
        let line = said.lines().find_map(|line| line.trim().strip_prefix(key));
        let word = line.and_then(|line| line.split_whitespace().next());
        word.with_context(|| format!("sysbench does not say \"{key}\""))
    };
    let transactions = after("transactions:")?.parse()?;
    let seconds: f64 = after("total time:")?.trim_end_matches('s').parse()?;
    let bars: Vec<(f64, u64)> = (said.lines())
        .filter(|line| line.contains('|'))
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?.parse().ok()?, words.last()?.parse().ok()?))
        })
        .collect();
    let all: u64 = bars.iter().map(|(_, count)| count).sum();
    ensure!(all > 0, "sysbench has measured nothing: {said}");
    let at = |share: f64| {
        let mut seen = 0;
        let reached = bars.iter().find(|(_, count)| {
            seen += count;
            seen as f64 >= all as f64 * share
        });
        reached.map_or(0.0, |(milliseconds, _)| milliseconds * 1000.0)
    };
    Ok(Pace {
        transactions,
        seconds,
        p90: at(0.9),
        p99: at(0.99),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sysbench_says_is_understood() {
        let said = "Latency histogram (values are in milliseconds)\n\
            \x20      value  ------------- distribution ------------- count\n\
            \x20      1.000 |****************************************  89\n\
            \x20      2.500 |*  1\n\
            \x20      7.000 |****  10\n\
            SQL statistics:\n    transactions:                        100    (50.00 per sec.)\n\
            General statistics:\n    total time:                          2.0000s\n";
        let expected = Pace {
            transactions: 100,
            seconds: 2.0,
            p90: 2500.0,
            p99: 7000.0,
        };
        assert_eq!(pace(said).unwrap(), expected);
        assert!(pace("nothing").is_err());
    }
}
