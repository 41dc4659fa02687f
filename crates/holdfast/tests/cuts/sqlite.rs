//! SQLite: a bank whose money has to be all there. Without a journal on a volume, by its atomic writes;
//! with one on ext4; and with none on ext4, where the cuts have to find it.

use crate::accounts::{self, ATOMIC, Mode, open, set_up, transfer};
use crate::points::{self, Point};
use crate::processes::{Mounted, Serving, ends_with};
use crate::recording::{Marks, Recording};
use crate::shown::{Served, Shown};
use std::path::Path;
use std::sync::Arc;
use volume::directory::Tree;
use volume::trace::Cut;
use volume::{Options, Volume};

const TRANSFERS: i64 = 150;

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

fn work(path: &Path, mode: Mode, marks: &Marks) {
    let mut connection = open(path, mode).unwrap();
    marks.mark("0");
    for number in 1..=TRANSFERS {
        transfer(&mut connection, number).unwrap();
        marks.mark(&number.to_string());
    }
}

/// What is wrong with a bank after a cut before which so many transfers were answered.
fn problem(path: &Path, mode: Mode, done: i64) -> Option<String> {
    accounts::look(path, mode, done).err()
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
    drop(set_up(&bank));
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
    recording.prepare_ext4(|mounted| drop(set_up(&mounted.at("bank"))));
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
