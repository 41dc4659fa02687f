//! PostgreSQL without full-page writes: on a volume every page is whole after every cut; on ext4 the
//! same cuts tear pages.

use crate::bank;
use crate::points::{self, Point};
use crate::processes::{Mounted, Serving, ends_with};
use crate::recording::{Marks, Recording};
use crate::servers::{Client, Server, User, finish};
use crate::shown::{Served, Shown};
use rustix::process::Signal;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use volume::directory::Tree;
use volume::trace::Cut;
use volume::{Options, Volume};

const TRANSFERS: i64 = 150;

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

    fn client(&self, database: &str) -> Client {
        let mut command = self.command("psql");
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
        command.args(["-h", &self.sockets, database]);
        Client::start(&mut command)
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
        server.stop().unwrap();
    }

    fn work(&self, marks: &Marks) {
        let server = self.server().unwrap();
        bank::work(|| self.client("bank"), marks, TRANSFERS, "CHECKPOINT;");
        server.stop().unwrap();
    }

    /// Starts it on what a cut has left, and looks at all of it.
    fn problem(&self, done: i64) -> Result<(), String> {
        let server = self.server()?;
        let mut client = self.client("bank");
        bank::problem(&mut client, done)?;
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
    let recording = Recording::new(400);
    let create = ["volume", "create", &recording.image, "--directory"];
    ends_with(0, &[&create[..], &["--segment-bytes", "1M"]].concat());
    let place = Place::new(&recording.point(), &recording, false);
    let mount = |disk: &str| Serving::start(&["volume", "mount", disk, &recording.point()]);
    let serving = mount(&recording.image);
    place.set_up();
    serving.stop();
    let recorder = recording.start(&[]);
    let serving = mount(recorder.file());
    place.work(&recorder.marks());
    serving.stop();
    recorder.stop();

    let place = Place::new(&recording.cut(), &recording, false);
    points::each(&recording, points::wanted(30), |point, cut| {
        let name = point.name();
        let volume = Volume::open(vec![Arc::new(cut.image)], Options::default());
        let volume = volume.unwrap_or_else(|error| panic!("{name}: {error}"));
        let tree = Arc::new(Tree::open(volume).expect("a tree"));
        let served = Served::new(tree, &recording.cut());
        if let Err(problem) = place.problem(point.done) {
            panic!("{name}: {problem}");
        }
        served.stop();
    });
}

/// A bank on ext4 that was recorded.
fn on_ext4(full_page_writes: bool) -> (Recording, Place) {
    let recording = Recording::new(400);
    let place = Place::new(&recording.point(), &recording, full_page_writes);
    recording.prepare_ext4(|_| place.set_up());
    let recorder = recording.start(&["--loop"]);
    let mounted = Mounted::new(&[recorder.device()], &recording.point());
    place.work(&recorder.marks());
    mounted.unmount();
    recorder.stop();
    let place = Place::new(&recording.tree(), &recording, full_page_writes);
    (recording, place)
}

/// What is wrong on a cut.
fn problem(recording: &Recording, place: &Place, point: &Point, cut: Cut) -> Result<(), String> {
    let shown = Shown::new(cut.image, &recording.cut());
    let mounted = Mounted::new(&[&shown.device], &recording.tree());
    let problem = place.problem(point.done);
    mounted.unmount();
    problem
}

#[test]
fn pages_are_torn_on_ext4_without_full_page_writes() {
    let (recording, place) = on_ext4(false);
    points::need_found(&recording, |point, cut| {
        problem(&recording, &place, point, cut).is_err()
    });
}

#[test]
fn with_full_page_writes_the_same_cuts_are_survived_on_ext4() {
    let (recording, place) = on_ext4(true);
    points::each(&recording, points::wanted(10), |point, cut| {
        let name = point.name();
        problem(&recording, &place, point, cut).unwrap_or_else(|why| panic!("{name}: {why}"));
    });
}
