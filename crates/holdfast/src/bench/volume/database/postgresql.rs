//! PostgreSQL under pgbench.

use super::server::{self, Server};
use super::{Amount, Contest, Database, Missing, Pace, Sample, Side, ground};
use crate::bench::process;
use crate::bench::volume::ground::Ground;
use anyhow::ensure;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const CLIENTS: u64 = 8;

pub(super) const CASE: &str = "postgresql-pgbench";
pub(super) const PEER: &str = "ext4, full_page_writes";

pub(super) fn contest(scratch: &Path, amount: Amount) -> anyhow::Result<Result<Contest, Missing>> {
    if let Some(program) = server::missing(&["postgres", "initdb", "psql", "pgbench"]) {
        return Ok(Err(Missing(format!(
            "PostgreSQL: {program} is not installed (Debian: postgresql)"
        ))));
    }
    let side = |name: &'static str, short: &str, ours: bool, full_pages: bool, worth| {
        let run = scratch.join(format!("{short}.run"));
        server::make_directory(&run)?;
        let database = PostgreSql {
            ground: ground(scratch, short, ours, amount)?,
            run,
            ours,
            full_pages,
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
        note: "8 clients, shared buffers smaller than the tables, most pages touched at most once between two \
               checkpoints, data checksums, synchronous_commit=on; a run begins and ends with a checkpoint and is \
               written in full",
        sides: vec![
            side("ours, no full_page_writes", "ours", true, false, safe)?,
            side(PEER, "full", false, true, safe)?,
            side(
                "ext4, no full_page_writes",
                "torn",
                false,
                false,
                "a commit is on the medium, but a crash may leave half a page",
            )?,
        ],
    }))
}

struct PostgreSql {
    ground: Ground,
    run: PathBuf,
    ours: bool,
    full_pages: bool,
    amount: Amount,
}

impl PostgreSql {
    fn data(&self) -> PathBuf {
        self.ground.directory().join("data")
    }

    fn log(&self) -> PathBuf {
        self.run.join("log")
    }

    fn client(&self, program: &str) -> Command {
        let mut command = server::client(program);
        command.env("PGHOST", &self.run);
        command.args(["-U", "root"]);
        command.current_dir(&self.run);
        command
    }

    fn start(&self) -> anyhow::Result<Server> {
        let mut command = server::as_user("postgres");
        command.arg("-D").arg(self.data());
        let sockets = format!("unix_socket_directories={}", self.run.display());
        let full_pages = format!(
            "full_page_writes={}",
            if self.full_pages { "on" } else { "off" }
        );
        let mut settings = vec![
            "listen_addresses=",
            &sockets,
            &full_pages,
            "shared_buffers=64MB",
            "max_wal_size=4GB",
            "checkpoint_timeout=1h",
        ];
        if self.ours {
            // docs/integrations/postgresql.md
            settings.extend([
                "wal_init_zero=off",
                "wal_recycle=off",
                "checkpoint_flush_after=0",
                "bgwriter_flush_after=0",
            ]);
        }
        for setting in settings {
            command.args(["-c", setting]);
        }
        Server::start(&mut command, &self.log(), || {
            let mut ask = self.client("psql");
            let ask = ask.args(["-d", "postgres", "-c", "SELECT 1"]);
            Ok(ask.output()?.status.success())
        })
    }

    fn checkpoint(&self) -> anyhow::Result<()> {
        let mut psql = self.client("psql");
        server::output(psql.args(["-d", "postgres", "-c", "CHECKPOINT"])).map(drop)
    }
}

impl Database for PostgreSql {
    fn prepare(&self) -> anyhow::Result<()> {
        server::make_directory(&self.data())?;
        let mut initdb = server::as_user("initdb");
        initdb.arg("--pgdata").arg(self.data());
        initdb.args(["--username=root", "--auth=trust", "--data-checksums"]);
        process::run(&mut initdb, server::LIMIT, &self.log())?;
        let server = self.start()?;
        let scale = if self.amount.quick { "12" } else { "60" };
        let initialize = |steps: &str| {
            let mut fill = self.client("pgbench");
            fill.args(["--initialize", "--quiet", "-I", steps, "-s", scale]);
            process::run(fill.arg("postgres"), server::LIMIT, &self.log())
        };
        initialize("dt")?;
        let mut psql = self.client("psql");
        psql.args(["-d", "postgres", "-v", "ON_ERROR_STOP=1"]);
        for line in ROWS.split_inclusive(';') {
            let line = line.replace(":scale", scale);
            psql.args(["-c", &line]);
        }
        process::run(&mut psql, server::LIMIT, &self.log())?;
        initialize("vp")?;
        server.stop(Signal::INT)
    }

    fn measure(&self) -> anyhow::Result<Sample> {
        let server = self.start()?;
        self.checkpoint()?;
        let before = self.ground.written()?;
        let began = Instant::now();
        let mut load = self.client("pgbench");
        load.args(["--no-vacuum", "--jobs=2", "--log"]);
        load.arg(format!("--client={CLIENTS}"));
        load.arg(format!(
            "--transactions={}",
            self.amount.transactions / CLIENTS
        ));
        server::output(load.arg("postgres"))?;
        let seconds = began.elapsed().as_secs_f64();
        self.checkpoint()?;
        let written = self.ground.written()?.since(before);
        server.stop(Signal::INT)?;
        Ok(pace(&self.run, seconds)?.with(written))
    }
}

/// What `pgbench -i` makes, but for fillers that do not compress in place of spaces, so that what packing
/// gains is not made up.
const ROWS: &str = "
CREATE FUNCTION noise (length int) RETURNS text LANGUAGE sql VOLATILE AS
  'SELECT left(md5(random()::text) || md5(random()::text) || md5(random()::text), length)';
INSERT INTO pgbench_branches SELECT number, 0, noise(88) FROM generate_series(1, :scale) number;
INSERT INTO pgbench_tellers
  SELECT number, (number - 1) / 10 + 1, 0, noise(84) FROM generate_series(1, 10 * :scale) number;
INSERT INTO pgbench_accounts
  SELECT number, (number - 1) / 100000 + 1, 0, noise(84) FROM generate_series(1, 100000 * :scale) number;
";

/// Reads the logs that pgbench left, a line for each transaction with its microseconds third, and takes
/// them away.
fn pace(directory: &Path, seconds: f64) -> anyhow::Result<Pace> {
    let mut took = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if !entry
            .file_name()
            .to_string_lossy()
            .starts_with("pgbench_log.")
        {
            continue;
        }
        let text = std::fs::read_to_string(entry.path())?;
        let times = text.lines().filter_map(|line| line.split(' ').nth(2));
        took.extend(times.filter_map(|time| time.parse::<u64>().ok()));
        std::fs::remove_file(entry.path())?;
    }
    ensure!(!took.is_empty(), "pgbench has measured nothing");
    took.sort_unstable();
    let at = |percent: usize| took.get(took.len() * percent / 100).copied().unwrap_or(0) as f64;
    Ok(Pace {
        transactions: took.len() as u64,
        seconds,
        p90: at(90),
        p99: at(99),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pgbench_logs_is_understood() {
        let place = tempfile::tempdir().unwrap();
        let lines = |from: u32| -> String {
            (from..from + 50)
                .map(|number| format!("0 1 {number} 0 1700000000 1\n"))
                .collect()
        };
        std::fs::write(place.path().join("pgbench_log.7"), lines(0)).unwrap();
        std::fs::write(place.path().join("pgbench_log.7.1"), lines(50)).unwrap();
        let expected = Pace {
            transactions: 100,
            seconds: 2.0,
            p90: 90.0,
            p99: 99.0,
        };
        assert_eq!(pace(place.path(), 2.0).unwrap(), expected);
        assert!(pace(place.path(), 2.0).is_err());
    }
}
