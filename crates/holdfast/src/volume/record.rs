//! `holdfast volume record`: a disk whose writes and flushes are kept in a trace.

use super::{device, file};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::screen;
use ::volume::trace::{Marks, Recorded, Recorder, TraceError};
use env::errno::Errno;
use env::real::RealDisk;
use env::{Disk, Rng};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `holdfast volume record`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The file or block device; keep a copy of what it is before, for `replay`
    #[arg(required = true, value_name = "IMAGE")]
    pub image: PathBuf,
    /// An empty directory to mount on, in which it is the file `disk`; what is written to the file
    /// `mark` beside it is noted in the trace
    #[arg(required = true, value_name = "DIR")]
    pub directory: PathBuf,
    /// A new file for the trace; it takes all that is written
    #[arg(long, required = true, value_name = "FILE")]
    pub trace: PathBuf,
    /// How the file is shown
    #[command(flatten)]
    pub shown: file::Shown,
}

/// Records until a signal, or until somebody unmounts it.
///
/// # Errors
/// The image or the trace cannot be used, the directory cannot be mounted on, or the recorder
/// stopped.
pub(super) fn run(args: &Args) -> Outcome<()> {
    let image = open_image(&args.image).map_err(|errno| device::unusable(&args.image, errno))?;
    let trace = create(&args.trace, 0, "a trace is never written over another")?;
    let id = Rng::from_kernel()
        .map(|mut rng| u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64()))
        .map_err(|errno| Failure::unexpected("random numbers", &errno))?;
    let recorder = Recorder::start(image, trace, id).map_err(|error| stopped(args, &error))?;
    let recorder = Arc::new(recorder);
    let served = file::serve(
        &args.directory,
        &args.shown,
        vec![
            ("disk", Box::new(Recorded(recorder.clone()))),
            ("mark", Box::new(Marks(recorder.clone()))),
        ],
    );
    let last = recorder.finish().map_err(|error| stopped(args, &error))?;
    served?;
    screen::print(&format!(
        "stopped: {} has {} events\n",
        args.trace.display(),
        last.0
    ))
}

/// Opens a file or block device for this process alone, by way of the page cache: what comes
/// through a mount is in memory of any place.
fn open_image(path: &Path) -> env::Result<Arc<dyn Disk>> {
    let flags = OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(Arc::new(RealDisk::from_fd(file)))
}

/// A new file of this many bytes, all of them a hole.
pub(super) fn create(path: &Path, bytes: u64, why: &str) -> Outcome<Arc<dyn Disk>> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR);
    let sized = file.and_then(|file| rustix::fs::ftruncate(&file, bytes).map(|()| file));
    match sized {
        Ok(file) => Ok(Arc::new(RealDisk::from_fd(file))),
        Err(Errno::EXIST) => Err(Failure::refuse(
            Exit::Failed,
            format!("{} exists already", path.display()),
            format!("name a new file; {why}"),
        )),
        Err(errno) => Err(Failure::refuse(
            Exit::Failed,
            format!("{}: {errno}", path.display()),
            "name a new file in a directory that this user may write",
        )),
    }
}

/// Opens a file or block device for reading.
pub(super) fn open_read(path: &Path) -> env::Result<Arc<dyn Disk>> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    match kind {
        FileType::Directory => Err(Errno::ISDIR),
        _ => Ok(Arc::new(RealDisk::from_fd(file))),
    }
}

fn stopped(args: &Args, error: &TraceError) -> Failure {
    Failure {
        what: format!("the recording stopped: {error}"),
        safe: format!(
            "what was recorded until then is in {}",
            args.trace.display()
        ),
        next: "look for room where the trace is, and at the kernel's messages about the device"
            .to_owned(),
        exit: Exit::Failed,
    }
}
