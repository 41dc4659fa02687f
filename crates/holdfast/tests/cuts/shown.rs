//! The image of a cut, or what is on it, as a file, and at a loop device, served by the test itself.

use crate::processes::tool;
use mount::fixed::{Content, Fixed};
use mount::{Layer, MountError, Options, Session};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long something may take that takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// A layer that is mounted; unmounted when it is dropped.
pub(crate) struct Served(Option<Session>);

impl Served {
    pub(crate) fn new(layer: Arc<dyn Layer>, directory: &str) -> Served {
        let options = Options {
            threads: 2,
            ..Options::default()
        };
        let session = Session::start(layer, Path::new(directory), &options);
        Served(Some(session.expect("it can be mounted")))
    }

    /// Unmounts; a process or loop device that has just let go may be late.
    pub(crate) fn stop(mut self) {
        let session = self.0.take().expect("it is mounted until now");
        let until = Instant::now() + PATIENCE;
        loop {
            match session.unmount(PATIENCE) {
                Ok(true) => return,
                Err(MountError::Busy { .. }) if Instant::now() < until => {
                    std::thread::yield_now();
                }
                other => panic!("it does not end: {other:?}"),
            }
        }
    }
}

/// A disk at a loop device.
pub(crate) struct Shown {
    served: Option<Served>,
    pub(crate) device: String,
    file: String,
}

impl Shown {
    pub(crate) fn new(image: impl Content, directory: &str) -> Shown {
        let layer = Fixed::new(vec![("disk".into(), Box::new(image))]);
        let served = Served::new(Arc::new(layer), directory);
        let file = format!("{directory}/disk");
        let options = ["--find", "--show", "--direct-io=on", "--sector-size=4096"];
        let device = tool("losetup", &[&options[..], &[&file]].concat());
        Shown {
            served: Some(served),
            device: device.trim().to_owned(),
            file,
        }
    }

    fn let_go(&self) {
        tool("losetup", &["--detach", &self.device]);
        let name = self.device.trim_start_matches("/dev/");
        let below = format!("/sys/block/{name}/loop/backing_file");
        // Somebody else may have taken the device at once.
        let attached = || {
            let found = std::fs::read_to_string(&below);
            found.is_ok_and(|found| found.trim_end() == self.file)
        };
        let until = Instant::now() + PATIENCE;
        while attached() {
            assert!(Instant::now() < until, "{} is in use", self.device);
            std::thread::yield_now();
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The file goes with the process; the loop device must not stay.
            let words = ["--detach", &self.device];
            let _ = Command::new("losetup").args(words).status();
            return;
        }
        self.let_go();
        if let Some(served) = self.served.take() {
            served.stop();
        }
    }
}
