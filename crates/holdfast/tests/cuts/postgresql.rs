//! PostgreSQL without full-page writes, under pgbench: on a volume every page is whole after every cut;
//! on ext4 the same cuts tear pages.

use crate::bank;
use crate::database::{self, Database, Load};
use crate::points;
use crate::recording::{Marks, Recording};
use crate::servers::{Client, Server, User, finish};
use rustix::process::Signal;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

const TRANSFERS: i64 = 150;

/// Whether what pgbench has moved is the same in all its tables, as after each of its transactions.
const BALANCED: &str = "SELECT moved = (SELECT sum(abalance) FROM pgbench_accounts)
        AND moved = (SELECT sum(tbalance) FROM pgbench_tellers)
        AND moved = (SELECT sum(bbalance) FROM pgbench_branches)
    FROM (SELECT coalesce(sum(delta), 0) AS moved FROM pgbench_history) AS history;";

/// Where Debian has the programs of its PostgreSQL.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// A cluster and the directory of its socket.
struct Place {
    data: String,
    sockets: String,
    user: User,
    full_page_writes: bool,
}

impl Place {
    fn command(&self, name: &str) -> Command {
        self.user.command(Path::new(PROGRAMS).join(name))
    }

    /// Small, and eager to write pages in place.
    fn server(&self) -> Result<Server, String> {
        let mut command = self.command("postgres");
        command.args(["-D", &self.data, "-k", &self.sockets]);
        let full_page_writes = format!("full_page_writes={}", self.full_page_writes);
        for setting in [
            full_page_writes.as_str(),
            "listen_addresses=",
            "shared_buffers=8MB",
            "bgwriter_delay=10ms",
            "bgwriter_lru_maxpages=1000",
            "max_wal_size=8MB",
            "min_wal_size=2MB",
        ] {
            command.args(["-c", setting]);
        }
        let ready = "ready to accept connections";
        Server::start(&mut command, ready, Signal::INT)
    }

    /// On the bank's database.
    fn pgbench(&self, more: &[&str]) -> Command {
        let mut command = self.command("pgbench");
        command.args(["-h", &self.sockets]).args(more).arg("bank");
        command
    }

    fn client(&self, database: &str) -> Client {
        let mut command = self.command("psql");
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
        command.args(["-h", &self.sockets, database]);
        Client::start(&mut command)
    }
}

impl Database for Place {
    fn new(directory: &str, recording: &Recording, full_page_writes: bool) -> Place {
        let sockets = recording.path("sockets");
        let user = User::named("postgres");
        std::fs::create_dir_all(&sockets).unwrap();
        chown(&sockets, Some(user.uid), Some(user.gid)).unwrap();
        Place {
            data: format!("{directory}/data"),
            sockets,
            user,
            full_page_writes,
        }
    }

    /// A new cluster with the bank.
    fn set_up(&self) {
        std::fs::create_dir(&self.data).unwrap();
        chown(&self.data, Some(self.user.uid), Some(self.user.gid)).unwrap();
        let mut command = self.command("initdb");
        command.args(["-D", &self.data, "--data-checksums", "--wal-segsize=1"]);
        command.args(["--no-locale", "--encoding=UTF8", "--auth=trust"]);
        finish(&mut command).unwrap();
        let server = self.server().unwrap();
        let mut client = self.client("postgres");
        let made = client.ask("CREATE DATABASE bank;\nSELECT 1;");
        assert_eq!(made, Ok("1".to_owned()));
        drop(client);
        let mut client = self.client("bank");
        let text = bank::set_up() + "CREATE EXTENSION amcheck; SELECT 2;";
        assert_eq!(client.ask(&text), Ok("2".to_owned()));
        drop(client);
        finish(&mut self.pgbench(&["--initialize", "--quiet"])).unwrap();
        server.stop().unwrap();
    }

    fn work(&self, marks: &Marks) {
        let server = self.server().unwrap();
        let mut client = self.client("bank");
        let moved = "SELECT count(*) FROM pgbench_history;";
        let begun = || client.ask(moved).unwrap() != "0";
        let endless = ["--no-vacuum", "--client=2", "--time=3600"];
        let mut load = Load::start(&mut self.pgbench(&endless), begun);
        bank::work(|| self.client("bank"), marks, TRANSFERS, "CHECKPOINT;");
        assert!(load.is_at_work(), "pgbench has failed");
        drop((load, client));
        server.stop().unwrap();
    }

    /// Starts it on what a cut has left, and looks at all of it.
    fn recovery(&self, done: i64) -> Result<(), String> {
        let server = self.server()?;
        let mut client = self.client("bank");
        bank::problem(&mut client, done)?;
        if client.ask(BALANCED)? != "t" {
            return Err("what pgbench has moved is not the same in all its tables".to_owned());
        }
        drop(client);
        let mut amcheck = self.command("pg_amcheck");
        amcheck.args(["-h", &self.sockets, "--heapallindexed", "-d", "bank"]);
        finish(&mut amcheck)?;
        server.stop()?;
        let mut checksums = self.command("pg_checksums");
        finish(checksums.args(["--check", "-D", &self.data])).map(drop)
    }
}

#[test]
fn every_page_is_whole_on_a_volume_without_full_page_writes() {
    database::is_whole_on_a_volume::<Place>(12);
}

#[test]
fn pages_are_torn_on_ext4_without_full_page_writes() {
    let (recording, place) = database::on_ext4::<Place>(false);
    points::need_found(&recording, |point, cut| {
        database::on_cut(&recording, cut, || place.recovery(point.done)).is_err()
    });
}

#[test]
fn with_full_page_writes_the_same_cuts_are_survived_on_ext4() {
    database::survives_on_ext4::<Place>(5, 0);
}
