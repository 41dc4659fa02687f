//! A disk that is recorded while a program works on it.

use crate::processes::{Home, Mounted, Serving, tool};
use env::Disk;
use env::real::RealDisk;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use volume::trace::Trace;

/// A place for the image, its copy from before, and the trace.
pub(crate) struct Recording {
    home: Home,
    /// The image that is recorded.
    pub(crate) image: String,
}

/// A recorder at work.
pub(crate) struct Recorder {
    serving: Serving,
    marks: Marks,
}

/// Where a program notes what it has done.
#[derive(Clone)]
pub(crate) struct Marks(Arc<File>);

impl Marks {
    /// Notes it; what came before was before.
    pub(crate) fn mark(&self, text: &str) {
        self.0.write_all_at(text.as_bytes(), 0).expect("a mark");
    }
}

impl Recording {
    /// An image of so many MiB, all of it a hole.
    pub(crate) fn new(mib: u64) -> Recording {
        let home = Home::in_memory();
        let image = home.path("image");
        let file = File::create(&image).expect("a new file");
        file.set_len(mib << 20).expect("a length");
        for name in ["shown", "point", "cut", "tree"] {
            home.directory(name);
        }
        Recording { home, image }
    }

    /// Where file systems of it are mounted while it is recorded.
    pub(crate) fn point(&self) -> String {
        self.home.path("point")
    }

    /// A directory for cuts.
    pub(crate) fn cut(&self) -> String {
        self.home.path("cut")
    }

    /// A directory for what is on cuts.
    pub(crate) fn tree(&self) -> String {
        self.home.path("tree")
    }

    /// A path beside all this.
    pub(crate) fn path(&self, name: &str) -> String {
        self.home.path(name)
    }

    /// Puts a file system on the image, not recorded, and lets `fill` fill it.
    pub(crate) fn prepare_ext4(&self, fill: impl FnOnce(&Mounted)) {
        tool("mkfs.ext4", &["-q", "-F", "-b", "4096", &self.image]);
        let mounted = Mounted::new(&["-o", "loop", &self.image], &self.point());
        fill(&mounted);
        mounted.unmount();
    }

    /// Keeps what the image is now, and records from here on.
    pub(crate) fn start(&self, more: &[&str]) -> Recorder {
        let base = self.home.path("base");
        tool("cp", &["--sparse=always", &self.image, &base]);
        let (shown, trace) = (self.home.path("shown"), self.home.path("trace"));
        let words = ["volume", "record", &self.image, &shown, "--trace", &trace];
        let serving = Serving::start(&[&words[..], more].concat());
        let mark = Path::new(&shown).join("mark");
        let marks = File::options().write(true).open(mark).expect("it is there");
        Recorder {
            serving,
            marks: Marks(Arc::new(marks)),
        }
    }

    /// What was recorded.
    pub(crate) fn trace(&self) -> Trace {
        Trace::open(self.disk("trace")).expect("a trace")
    }

    /// What the disk was before.
    pub(crate) fn base(&self) -> Arc<dyn Disk> {
        self.disk("base")
    }

    fn disk(&self, name: &str) -> Arc<dyn Disk> {
        let file = File::open(self.home.path(name)).expect("it is there");
        Arc::new(RealDisk::from_fd(file.into()))
    }
}

impl Recorder {
    pub(crate) fn marks(&self) -> Marks {
        self.marks.clone()
    }

    pub(crate) fn file(&self) -> &str {
        &self.serving.file
    }

    pub(crate) fn device(&self) -> &str {
        self.serving.device()
    }

    /// Ends the trace. Nobody has marks or the file open any more.
    pub(crate) fn stop(self) {
        drop(self.marks);
        self.serving.stop();
    }
}
