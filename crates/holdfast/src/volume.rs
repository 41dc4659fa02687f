//! `holdfast volume`: a store of blocks on files or devices, in which several writes are one.

use crate::exit::Exit;
use crate::failure::{Failure, NOTHING_CHANGED, Outcome};
use crate::screen::{self, Bar};
use crate::units;
use ::volume::directory::{self, Role, Tree, TreeReport};
use ::volume::{CheckReport, ObjectId, Options, Stats, Volume, VolumeError, VolumeId};
use env::errno::{Errno, ErrorKind};
use env::real::RealDisk;
use env::{Disk, Rng};
use redundancy::status::Progress;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

mod device;
mod file;
mod loops;
mod mount;
mod record;
mod replay;
mod rescue;
mod serve;
#[cfg(feature = "ublk")]
mod ublk;
mod upkeep;

/// The object that `create` makes: a block device over all of the volume.
const DEVICE: ObjectId = ObjectId(1);

/// The commands.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    /// Make a volume on files or block devices
    Create(CreateArgs),
    /// Read every block and compare it with its checksum, and change nothing
    Check(LookArgs),
    /// Show how full a volume is
    Stat(LookArgs),
    /// Gather what counts, so that segments become free
    Clean(CleanArgs),
    /// Serve a volume as block devices by NBD, or as one file, until stopped
    Serve(serve::Args),
    /// Mount a volume that was created with --directory, until stopped
    Mount(mount::Args),
    /// Show any file or block device as one file, and record what is written to it, until stopped
    Record(record::Args),
    /// Make the image that a power cut may have left of what was recorded
    Replay(replay::Args),
    /// Go back to the moment before the log was damaged, where a volume is not opened for that
    Rescue(rescue::Args),
}

/// Arguments of `holdfast volume create`.
#[derive(Clone, Debug, clap::Args)]
pub struct CreateArgs {
    /// Files or block devices, in the order in which they are given from then on
    #[arg(required = true, value_name = "DEVICE")]
    pub devices: Vec<PathBuf>,
    /// Make each file that is missing, with this many bytes (such as 10G)
    #[arg(long, value_name = "BYTES", value_parser = crate::units::parse_bytes)]
    pub file_bytes: Option<u64>,
    /// Bytes of a segment, what is cleaned as a whole
    #[arg(long, value_name = "BYTES", default_value = "4M", value_parser = crate::units::parse_bytes)]
    pub segment_bytes: u64,
    /// Make an empty directory, for `mount`, in place of a block device, for `serve`
    #[arg(long)]
    pub directory: bool,
    /// Bytes of the block device that `serve` shows, if not all that fits
    #[arg(long, value_name = "BYTES", value_parser = crate::units::parse_bytes, conflicts_with = "directory")]
    pub device_bytes: Option<u64>,
    /// Also where there is something: what is there is lost
    #[arg(long)]
    pub overwrite: bool,
    /// One JSON object in place of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of commands that only look.
#[derive(Clone, Debug, clap::Args)]
pub struct LookArgs {
    /// The files or block devices of the volume, in order
    #[arg(required = true, value_name = "DEVICE")]
    pub devices: Vec<PathBuf>,
    /// One JSON object in place of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `holdfast volume clean`.
#[derive(Clone, Debug, clap::Args)]
pub struct CleanArgs {
    /// The files or block devices of the volume, in order
    #[arg(required = true, value_name = "DEVICE")]
    pub devices: Vec<PathBuf>,
    /// Stop when so many segments are free
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    pub segments: u64,
    /// One JSON object in place of text
    #[arg(long)]
    pub json: bool,
}

impl Command {
    /// Whether the answer is to be JSON.
    pub fn wants_json(&self) -> bool {
        match self {
            Command::Create(args) => args.json,
            Command::Check(args) | Command::Stat(args) => args.json,
            Command::Clean(args) => args.json,
            Command::Replay(args) => args.json,
            Command::Rescue(args) => args.json,
            Command::Serve(_) | Command::Mount(_) | Command::Record(_) => false,
        }
    }
}

/// Runs the one that was given.
///
/// # Errors
/// A device cannot be used, the volume cannot be opened, or it stopped.
pub fn run(command: &Command) -> Outcome<Exit> {
    match command {
        Command::Create(args) => create(args).map(|()| Exit::Done),
        Command::Check(args) => check(args),
        Command::Stat(args) => stat(args).map(|()| Exit::Done),
        Command::Clean(args) => clean(args).map(|()| Exit::Done),
        Command::Serve(args) => serve::run(args).map(|()| Exit::Done),
        Command::Mount(args) => mount::run(args).map(|()| Exit::Done),
        Command::Record(args) => record::run(args).map(|()| Exit::Done),
        Command::Replay(args) => replay::run(args).map(|()| Exit::Done),
        Command::Rescue(args) => rescue::run(args),
    }
}

fn create(args: &CreateArgs) -> Outcome<()> {
    let segment_blocks = args.segment_bytes / ::volume::BLOCK_BYTES as u64;
    let options = Options {
        segment_blocks: u32::try_from(segment_blocks).unwrap_or(u32::MAX),
        ..Options::default()
    };
    let mut made = device::Made::default();
    for path in &args.devices {
        made.make(path, args.file_bytes)?;
    }
    device::need_different(&args.devices)?;
    for path in &args.devices {
        device::need_no_loop(path)?;
    }
    let disks = open_disks(&args.devices, true)?;
    if !args.overwrite {
        for (path, disk) in args.devices.iter().zip(&disks) {
            device::need_blank(path, disk.as_ref())?;
        }
    }
    if let Some(bytes) = args.device_bytes {
        device::need_room(&disks, options.segment_blocks, bytes)?;
    }
    let id = Rng::from_kernel()
        .map(|mut rng| u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64()))
        .map_err(|errno| Failure::unexpected("random numbers", &errno))?;
    let refused = |error: VolumeError| explain(&args.devices, &error);
    let volume = Volume::overwrite(disks, VolumeId(id), options).map_err(refused)?;
    made.keep();
    if args.directory {
        let tree = Tree::create(volume).map_err(refused)?;
        let shown = Shown::of(tree.volume());
        tree.volume().checkpoint().map_err(refused)?;
        return shown.print(args.json);
    }
    let most = volume.stats().capacity_blocks * ::volume::BLOCK_BYTES as u64;
    let size = args.device_bytes.unwrap_or(most);
    let change = ::volume::Change::Resize {
        object: DEVICE,
        size,
    };
    volume.commit(&[change]).map_err(refused)?;
    let shown = Shown::of(&volume);
    volume.close().map_err(refused)?;
    shown.print(args.json)
}

fn check(args: &LookArgs) -> Outcome<Exit> {
    let volume = open(&args.devices, false)?;
    let mut bar = Bar::new("checking");
    let block = ::volume::BLOCK_BYTES as u64;
    let report = volume
        .check(&mut |done, all| {
            bar.show(&Progress {
                bytes_done: done * block,
                bytes_total: Some(all * block),
                ..Progress::default()
            });
        })
        .map_err(|error| explain(&args.devices, &error))?;
    drop(bar);
    let tree = directory::check(&volume, &report.damaged);
    let tree = tree.map_err(|error| explain(&args.devices, &error))?;
    let sound =
        report.damaged.is_empty() && (tree.as_ref()).is_none_or(|tree| tree.problems.is_empty());
    if args.json {
        screen::print_json(&Checked { report, tree })?;
    } else {
        let mut text = format!(
            "{} in {}: ",
            units::plural(report.blocks, "block"),
            units::plural(report.objects, "object")
        );
        text.push_str(match report.damaged.is_empty() {
            true => "all are as they were written\n",
            false => "some are lost\n",
        });
        // A directory tree names files in place of blocks.
        let devices = report.damaged.iter();
        for damage in devices.filter(|damage| role(damage.object) == Role::Device) {
            let (object, block) = (damage.object, damage.block);
            let offset = u64::from(block) * 4096;
            text.push_str(&format!(
                "  object {object}, bytes {offset} to {}: {}\n",
                offset + 4096,
                damage.complaint
            ));
        }
        if let Some(tree) = &tree {
            text.push_str(&of_tree(tree));
        }
        screen::print(&text)?;
    }
    Ok(match sound {
        true => Exit::Done,
        false => Exit::VolumeDamaged,
    })
}

/// What `check --json` says.
#[derive(Serialize)]
struct Checked {
    #[serde(flatten)]
    report: CheckReport,
    /// The directory tree; null where the volume has none.
    tree: Option<TreeReport>,
}

fn role(object: u64) -> Role {
    directory::role(ObjectId(object))
}

fn of_tree(tree: &TreeReport) -> String {
    let mut text = format!(
        "{} in {}: ",
        units::plural(tree.files, "file"),
        match tree.directories {
            1 => "1 directory".to_owned(),
            more => format!("{more} directories"),
        }
    );
    text.push_str(match tree.problems.is_empty() {
        true => "the tree is whole\n",
        false => "some have lost something\n",
    });
    for problem in &tree.problems {
        let place = match problem.path.as_str() {
            "" => format!("inode {}", problem.ino),
            path => path.escape_debug().to_string(),
        };
        text.push_str(&format!("  {place}: {}\n", problem.complaint));
    }
    text
}

fn stat(args: &LookArgs) -> Outcome<()> {
    Shown::of(&open(&args.devices, false)?).print(args.json)
}

fn clean(args: &CleanArgs) -> Outcome<()> {
    let volume = open(&args.devices, true)?;
    let refused = |error: VolumeError| explain(&args.devices, &error);
    volume.clean(args.segments).map_err(refused)?;
    let shown = Shown::of(&volume);
    volume.close().map_err(refused)?;
    shown.print(args.json)
}

/// What `stat` says.
#[derive(Serialize)]
struct Shown {
    volume: String,
    disks: u16,
    segment_bytes: u64,
    /// Whether it holds a directory tree, and no block devices.
    directory: bool,
    /// The block devices.
    objects: Vec<Object>,
    #[serde(flatten)]
    stats: Stats,
}

#[derive(Serialize)]
struct Object {
    object: u64,
    bytes: u64,
}

impl Shown {
    fn of(volume: &Volume) -> Shown {
        let geometry = volume.geometry();
        let objects = volume.objects().into_iter();
        let objects = objects.filter(|(object, _)| role(object.0) == Role::Device);
        Shown {
            volume: volume.id().to_string(),
            disks: geometry.disks,
            segment_bytes: u64::from(geometry.segment_blocks) * ::volume::BLOCK_BYTES as u64,
            directory: directory::is_tree(volume),
            objects: objects
                .map(|(object, bytes)| Object {
                    object: object.0,
                    bytes,
                })
                .collect(),
            stats: volume.stats(),
        }
    }

    fn print(&self, json: bool) -> Outcome<()> {
        if json {
            return screen::print_json(self);
        }
        let block = ::volume::BLOCK_BYTES as u64;
        let stats = &self.stats;
        let mut text = format!("volume {}\n", self.volume);
        let mut line = |name: &str, value: String| {
            text.push_str(&format!("  {name:<9} {value}\n"));
        };
        let (used, all) = (stats.mapped_blocks * block, stats.capacity_blocks * block);
        line(
            "used",
            format!("{} of {}", units::bytes(used), units::bytes(all)),
        );
        line(
            "segments",
            format!(
                "{} of {}, {} free, {} of these for the cleaner",
                stats.segments,
                units::bytes(self.segment_bytes),
                stats.free_segments,
                stats.reserve_segments
            ),
        );
        line("disks", self.disks.to_string());
        line("map", units::bytes(stats.map_memory_bytes));
        if self.directory {
            line("holds", "a directory".to_owned());
        }
        for object in &self.objects {
            line(
                "object",
                format!("{}, {}", object.object, units::bytes(object.bytes)),
            );
        }
        screen::print(&text)
    }
}

/// Opens a volume, for this process alone where it is written.
fn open(devices: &[PathBuf], write: bool) -> Outcome<Volume> {
    let disks = open_disks(devices, write)?;
    let opened = match write {
        true => Volume::open(disks, Options::default()),
        false => Volume::open_read_only(disks, Options::default()),
    };
    opened.map_err(|error| explain(devices, &error))
}

/// How long a process that was killed may keep a device: the kernel ends its writes first, and a
/// service manager starts the next one at once.
const PATIENCE: Duration = Duration::from_secs(3);

/// How often it is tried meanwhile.
const AGAIN: Duration = Duration::from_millis(50);

fn open_disks(devices: &[PathBuf], write: bool) -> Outcome<Vec<Arc<dyn Disk>>> {
    let until = Instant::now() + PATIENCE;
    let open = |path: &PathBuf| -> Outcome<Arc<dyn Disk>> {
        loop {
            match RealDisk::open_exclusive(path, write) {
                Ok(disk) => return Ok(Arc::new(disk)),
                Err(Errno::AGAIN) if write && Instant::now() < until => std::thread::sleep(AGAIN),
                Err(errno) => return Err(device::unusable(path, errno)),
            }
        }
    };
    devices.iter().map(open).collect()
}

/// An error of a volume for people.
fn explain(devices: &[PathBuf], error: &VolumeError) -> Failure {
    let path = |disk: usize| -> String {
        let path = devices.get(disk).map(PathBuf::as_path);
        path.unwrap_or(Path::new("?")).display().to_string()
    };
    let (exit, next) = match error {
        VolumeError::NotAVolume { disk, .. } => (
            Exit::NotAVolume,
            format!(
                "check that {} is meant; `holdfast volume create` makes a volume",
                path(*disk)
            ),
        ),
        VolumeError::WrongDisks { disk, .. } => (
            Exit::NotAVolume,
            format!(
                "give all devices of the volume, in the order of its creation; {} is out of it",
                path(*disk)
            ),
        ),
        VolumeError::NoTree => (
            Exit::NotAVolume,
            "serve it with `holdfast volume serve`; `holdfast volume create --directory` makes a\n\
             volume to mount"
                .to_owned(),
        ),
        VolumeError::TooSmall { .. } => (
            Exit::DeviceRefused,
            "take a larger device, or smaller segments with --segment-bytes (64K at least)"
                .to_owned(),
        ),
        VolumeError::Setting { .. } => (
            Exit::Usage,
            "segments have 64K to 16M, a volume has 1 to 16 devices".to_owned(),
        ),
        VolumeError::NoSpace { .. } => (
            Exit::VolumeFull,
            "discard or remove something, or copy the content to a larger volume".to_owned(),
        ),
        VolumeError::FlightLost { .. } => (
            Exit::VolumeDamaged,
            "restore it from a backup, or go back to the moment before the damage:\n\
             `holdfast volume rescue` says what that would give up"
                .to_owned(),
        ),
        other if other.kind() == ErrorKind::Corrupt => (
            Exit::VolumeDamaged,
            "restore what is lost from a backup; `holdfast volume check` names the blocks"
                .to_owned(),
        ),
        VolumeError::Io {
            errno: Errno::INVAL,
            ..
        } => (
            Exit::DeviceRefused,
            "the device may be shorter than it was; look at its size".to_owned(),
        ),
        _ => (
            Exit::Failed,
            "look at the kernel's messages about the device, then run it again".to_owned(),
        ),
    };
    Failure {
        what: error.to_string(),
        safe: match error.kind() {
            ErrorKind::Fatal => "what was synced is on the volume".to_owned(),
            _ => NOTHING_CHANGED.to_owned(),
        },
        next,
        exit,
    }
}
