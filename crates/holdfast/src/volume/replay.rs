//! `holdfast volume replay`: what a power cut may have left of a disk that was recorded.

use super::{device, record};
use crate::exit::Exit;
use crate::failure::{Failure, NOTHING_CHANGED, Outcome};
use crate::{screen, units};
use ::volume::trace::{Ending, Event, EventNumber, Fate, Kept, Loss, Trace, TraceError, Walk};
use env::Disk;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `holdfast volume replay`.
#[derive(Clone, Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["list", "image"])))]
pub struct Args {
    /// What the disk was before it was recorded
    #[arg(required = true, value_name = "BASE")]
    pub base: PathBuf,
    /// The trace
    #[arg(required = true, value_name = "TRACE")]
    pub trace: PathBuf,
    /// Print what is in the trace, and where flushes and marks are
    #[arg(long, conflicts_with_all = ["until", "lose", "seed"])]
    pub list: bool,
    /// A new file for the image
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,
    /// Cut the power behind event N, in place of the end
    #[arg(long, value_name = "N")]
    pub until: Option<u64>,
    /// Which of the writes that no flush has made durable are lost: none, all, or numbers of events
    #[arg(long, value_name = "none|all|N,N", value_parser = parse_loss)]
    pub lose: Option<Loss>,
    /// Lose some whole, tear some, by the generator of this seed
    #[arg(long, value_name = "SEED", conflicts_with = "lose")]
    pub seed: Option<u64>,
    /// What is never torn, for --seed: 4096, or 512 for old disks
    #[arg(long, value_name = "BYTES", default_value = "4096", value_parser = parse_sector)]
    pub sector_bytes: u64,
    /// One JSON object in place of text
    #[arg(long)]
    pub json: bool,
}

fn parse_loss(text: &str) -> Result<Loss, String> {
    match text {
        "none" => Ok(Loss::Nothing),
        "all" => Ok(Loss::Everything),
        numbers => {
            let numbers = numbers.split(',').map(str::parse);
            let events: Result<BTreeSet<u64>, _> = numbers.collect();
            let events = events.map_err(|_| "want none, all, or numbers with commas".to_owned())?;
            Ok(Loss::Writes(events.into_iter().map(EventNumber).collect()))
        }
    }
}

fn parse_sector(text: &str) -> Result<u64, String> {
    match text {
        "512" => Ok(512),
        "4096" | "4K" => Ok(4096),
        _ => Err("want 512 or 4096".to_owned()),
    }
}

/// What `--list` says.
#[derive(Serialize, Default)]
struct Listed {
    disk_bytes: u64,
    events: u64,
    writes: u64,
    written_bytes: u64,
    zeros: u64,
    zeroed_bytes: u64,
    /// Most writes that no flush had made durable at once.
    in_flight_max: usize,
    /// The events at which a flush was answered.
    flushes: Vec<u64>,
    marks: Vec<Mark>,
    /// Whether the recorder ended it.
    complete: bool,
    /// Why the trace ends where it does, where it is damaged there.
    damage: Option<String>,
}

#[derive(Serialize)]
struct Mark {
    event: u64,
    text: String,
}

/// What a replay says.
#[derive(Serialize)]
struct Replayed {
    image: PathBuf,
    /// The event behind which the power was cut.
    until: u64,
    kept: usize,
    lost: usize,
    torn: usize,
    /// The writes that no flush had made durable.
    writes: Vec<Write>,
}

#[derive(Serialize)]
struct Write {
    event: u64,
    offset: u64,
    bytes: u64,
    kept_bytes: u64,
}

/// Lists, or makes an image.
///
/// # Errors
/// The trace or the base cannot be used, or the image cannot be made.
pub(super) fn run(args: &Args) -> Outcome<()> {
    let open = |path: &Path| -> Outcome<Arc<dyn Disk>> {
        record::open_read(path).map_err(|errno| device::unusable(path, errno))
    };
    let trace = Trace::open(open(&args.trace)?).map_err(|error| explain(args, &error))?;
    let base = open(&args.base)?;
    let walk = Walk::new(&trace, base).map_err(|error| explain(args, &error))?;
    match &args.image {
        Some(image) => make(args, walk, image),
        None => list(args, walk, trace.header().disk_bytes),
    }
}

fn list(args: &Args, mut walk: Walk, disk_bytes: u64) -> Outcome<()> {
    let mut listed = Listed {
        disk_bytes,
        ..Listed::default()
    };
    let mut syncs = BTreeSet::new();
    while let Some(found) = walk.step().map_err(|error| explain(args, &error))? {
        listed.events = found.number.0;
        listed.in_flight_max = listed.in_flight_max.max(walk.in_flight());
        match found.event {
            Event::Write { length, .. } => {
                listed.writes += 1;
                listed.written_bytes += length;
            }
            Event::Zero { length, .. } => {
                listed.zeros += 1;
                listed.zeroed_bytes += length;
            }
            Event::Sync => drop(syncs.insert(found.number)),
            Event::Done { request, errno: 0 } if syncs.contains(&request) => {
                listed.flushes.push(found.number.0);
            }
            Event::Mark(text) => listed.marks.push(Mark {
                event: found.number.0,
                text: String::from_utf8_lossy(&text).trim().to_owned(),
            }),
            Event::Done { .. } | Event::End => {}
        }
    }
    listed.complete = walk.ending() == Some(Ending::Clean);
    if let Some(Ending::Broken(corruption)) = walk.ending() {
        listed.damage = Some(corruption.to_string());
    }
    match args.json {
        true => screen::print_json(&listed),
        false => screen::print(&listed.text()),
    }
}

impl Listed {
    fn text(&self) -> String {
        let mut text = format!(
            "{} on a disk of {}\n",
            units::plural(self.events, "event"),
            units::bytes(self.disk_bytes)
        );
        let mut line = |name: &str, value: String| {
            text.push_str(&format!("  {name:<9} {value}\n"));
        };
        let sized = |count, bytes| format!("{count}, {}", units::bytes(bytes));
        line("writes", sized(self.writes, self.written_bytes));
        line("zeros", sized(self.zeros, self.zeroed_bytes));
        line("in flight", format!("{} at most", self.in_flight_max));
        line(
            "end",
            match (&self.damage, self.complete) {
                (Some(damage), _) => format!("DAMAGED: {damage}"),
                (None, true) => "as the recorder ended it".to_owned(),
                (None, false) => "the recorder was killed there".to_owned(),
            },
        );
        let flushes: Vec<String> = self.flushes.iter().map(u64::to_string).collect();
        line(
            "flushes",
            match flushes.as_slice() {
                [] => "none".to_owned(),
                some => format!("{}, answered at events {}", some.len(), some.join(" ")),
            },
        );
        for mark in &self.marks {
            line(
                "mark",
                format!("{} {}", mark.event, mark.text.escape_debug()),
            );
        }
        text
    }
}

fn make(args: &Args, mut walk: Walk, path: &Path) -> Outcome<()> {
    let refused = |error| explain(args, &error);
    match args.until {
        Some(until) => walk.advance(EventNumber(until)).map_err(refused)?,
        None => while walk.step().map_err(refused)?.is_some() {},
    }
    let loss = match (&args.lose, args.seed) {
        (Some(loss), _) => loss.clone(),
        (None, Some(seed)) => Loss::Random {
            seed,
            sector_bytes: args.sector_bytes,
        },
        (None, None) => Loss::Nothing,
    };
    let cut = walk.cut(&loss).map_err(refused)?;
    let length = Disk::len(&cut.image).map_err(|errno| device::unusable(path, errno))?;
    let out = record::create(path, length, "an image is never written over a file")?;
    if let Err(failure) = cut.image.copy_to(out.as_ref()).map_err(refused) {
        // Half an image is of no use to anybody.
        let _ = std::fs::remove_file(path);
        return Err(failure);
    }
    let count = |wanted: fn(&Kept) -> bool| {
        let fates = cut.fates.iter();
        fates.filter(|fate| wanted(&fate.kept)).count()
    };
    let replayed = Replayed {
        image: path.to_path_buf(),
        until: walk.at().0,
        kept: count(|kept| *kept == Kept::Whole),
        lost: count(|kept| *kept == Kept::Nothing),
        torn: count(|kept| matches!(kept, Kept::Part(_))),
        writes: cut.fates.iter().map(Write::of).collect(),
    };
    if args.json {
        return screen::print_json(&replayed);
    }
    screen::print(&format!(
        "{}: the power was cut behind event {}; of {} in flight {} whole, {} lost, {} torn\n",
        path.display(),
        replayed.until,
        units::plural(cut.fates.len() as u64, "write"),
        replayed.kept,
        replayed.lost,
        replayed.torn
    ))
}

impl Write {
    fn of(fate: &Fate) -> Write {
        Write {
            event: fate.write.0,
            offset: fate.offset,
            bytes: fate.length,
            kept_bytes: match fate.kept {
                Kept::Whole => fate.length,
                Kept::Nothing => 0,
                Kept::Part(bytes) => bytes,
            },
        }
    }
}

fn explain(args: &Args, error: &TraceError) -> Failure {
    let (exit, next) = match error {
        TraceError::NotATrace(_) => (
            Exit::Unrecognised,
            "name the file that `holdfast volume record --trace FILE` wrote",
        ),
        TraceError::Senseless { .. } => (
            Exit::Corrupt,
            "the events before it can be replayed; record it again for those behind",
        ),
        TraceError::NoEvent { .. } | TraceError::NotInFlight { .. } => (
            Exit::Usage,
            "`holdfast volume replay BASE TRACE --list` shows what there is",
        ),
        TraceError::BaseLength { .. } | TraceError::OtherBase => (
            Exit::BadTrace,
            "give a copy of the image as it was before `holdfast volume record` began",
        ),
        TraceError::Io { .. } => (
            Exit::Failed,
            "look for room where the image goes, and at the kernel's messages",
        ),
    };
    Failure {
        what: format!("{}: {error}", args.trace.display()),
        safe: NOTHING_CHANGED.to_owned(),
        next: next.to_owned(),
        exit,
    }
}
