//! A database server that works on a volume or on ext4 and is started again on what cuts may leave. It does
//! transfers in a bank, each of which is marked when it was answered, and a benchmark of others beside them.

use crate::points;
use crate::processes::{Mounted, Serving, ends_with};
use crate::recording::{Marks, Recording};
use crate::shown::{Served, Shown};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use volume::directory::Tree;
use volume::trace::Cut;
use volume::{Options, Volume};

/// How long a benchmark may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);

/// A benchmark at work; ended when it is dropped, in the middle of what it does.
pub(crate) struct Load(Child);

impl Load {
    /// Starts it, and waits until `begun` says that it has changed something.
    pub(crate) fn start(command: &mut Command, mut begun: impl FnMut() -> bool) -> Load {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut load = Load(quiet.spawn().expect("the benchmark runs"));
        let until = Instant::now() + PATIENCE;
        while !begun() {
            assert!(load.is_at_work(), "the benchmark has ended: {command:?}");
            assert!(Instant::now() < until, "it does nothing: {command:?}");
        }
        load
    }

    /// Whether it goes on.
    pub(crate) fn is_at_work(&mut self) -> bool {
        self.0.try_wait().expect("it is a child").is_none()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // Gone already where it failed, which has been noticed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server, and where its data is.
pub(crate) trait Database: Sized {
    /// Data below a directory. `twice` says whether it writes pages a second time, against tearing.
    fn new(directory: &str, recording: &Recording, twice: bool) -> Self;
    /// Makes a bank, and the tables of a benchmark.
    fn set_up(&self);
    /// Moves money in it while the benchmark runs, and marks what was committed.
    fn work(&self, marks: &Marks);
    /// Looks at the pages as they lie, where that can be done without the server.
    fn pages(&self) -> Result<(), String> {
        Ok(())
    }
    /// Starts it on what a cut has left, and looks at all of it.
    fn recovery(&self, done: i64) -> Result<(), String>;
}

/// On a volume every page is whole after every cut.
pub(crate) fn is_whole_on_a_volume<D: Database>(cuts: u64) {
    let recording = Recording::new(400);
    let create = ["volume", "create", &recording.image, "--directory"];
    ends_with(0, &[&create[..], &["--segment-bytes", "1M"]].concat());
    let database = D::new(&recording.point(), &recording, false);
    let mount = |disk: &str| Serving::start(&["volume", "mount", disk, &recording.point()]);
    let serving = mount(&recording.image);
    database.set_up();
    serving.stop();
    let recorder = recording.start(&[]);
    let serving = mount(recorder.file());
    database.work(&recorder.marks());
    serving.stop();
    recorder.stop();

    let database = D::new(&recording.cut(), &recording, false);
    points::each(&recording, points::wanted(cuts), |point, cut| {
        let name = point.name();
        let volume = Volume::open(vec![Arc::new(cut.image)], Options::default());
        let volume = volume.unwrap_or_else(|error| panic!("{name}: {error}"));
        let tree = Arc::new(Tree::open(volume).expect("a tree"));
        let served = Served::new(tree, &recording.cut());
        // Pages are whole even before the server makes anything good.
        let whole = database.pages();
        if let Err(problem) = whole.and_then(|()| database.recovery(point.done)) {
            panic!("{name}: {problem}");
        }
        served.stop();
    });
}

/// A bank on ext4 that was recorded.
pub(crate) fn on_ext4<D: Database>(twice: bool) -> (Recording, D) {
    let recording = Recording::new(400);
    let database = D::new(&recording.point(), &recording, twice);
    recording.prepare_ext4(|_| database.set_up());
    let recorder = recording.start(&["--loop"]);
    let mounted = Mounted::new(&[recorder.device()], &recording.point());
    database.work(&recorder.marks());
    mounted.unmount();
    recorder.stop();
    let database = D::new(&recording.tree(), &recording, twice);
    (recording, database)
}

/// Asks about the data on a cut of an ext4.
pub(crate) fn on_cut<T>(recording: &Recording, cut: Cut, ask: impl FnOnce() -> T) -> T {
    let shown = Shown::new(cut.image, &recording.cut());
    let mounted = Mounted::new(&[&shown.device], &recording.tree());
    let answer = ask();
    mounted.unmount();
    answer
}

/// With pages written twice the cuts that tear them on ext4 are survived there; `lost_max` of them
/// need not be, where the server itself is known to fail at some.
pub(crate) fn survives_on_ext4<D: Database>(cuts: u64, lost_max: usize) {
    let (recording, database) = on_ext4::<D>(true);
    let mut lost = Vec::new();
    points::each(&recording, points::wanted(cuts), |point, cut| {
        // Torn pages there are; the server makes them good.
        let problem = on_cut(&recording, cut, || database.recovery(point.done));
        lost.extend(problem.err().map(|why| format!("{}: {why}", point.name())));
    });
    for why in &lost {
        eprintln!("lost on ext4: {why}");
    }
    assert!(lost.len() <= lost_max, "{} cuts: {lost:?}", lost.len());
}
