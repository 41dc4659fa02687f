//! `holdfast inject`: makes bytes go bad on purpose, in the layer that is named, to see who finds it.

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::{os, screen, units};
use env::extents::{Extent, extents};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

const PAGE: u64 = codec::PAGE_BYTES as u64;

/// Most pages of one call.
const PAGES_MAX: usize = 1 << 20;

/// Where bytes go bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Layer {
    /// In the kernel's page cache, from where they get to the device in the end
    Memory,
    /// On the device: what the kernel has in memory stays right
    Device,
    /// On the medium, below the device's write cache
    Medium,
}

/// Arguments of `holdfast inject`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
One bit of each page is flipped; length and times of the file stay. FILE has to be on a file system \
on a loop device, so that nothing of value is harmed by mistake. A loop device has no write cache \
of its own: there a fault of the medium is one of the device.")]
pub struct Args {
    /// A file on a loop device
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Where
    #[arg(long, value_enum)]
    pub layer: Layer,
    /// Numbers of pages of 4 KiB, such as 0,5-7
    #[arg(long, value_name = "PAGES", value_parser = pages, required = true)]
    pub pages: Pages,
}

/// Which pages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pages(Vec<u64>);

fn pages(text: &str) -> Result<Pages, String> {
    let number = |text: &str| {
        text.parse::<u64>()
            .map_err(|_| format!("`{text}` is no number"))
    };
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        let count = last.checked_sub(first).ok_or("a range goes upwards")?;
        if all.len() as u64 + count >= PAGES_MAX as u64 {
            return Err(format!("at most {PAGES_MAX} pages at once"));
        }
        all.extend(first..=last);
    }
    Ok(Pages(all))
}

/// Does it.
///
/// # Errors
/// The file is not on a loop device, or does not have such pages.
pub fn run(args: &Args) -> Outcome<Exit> {
    let failed = |error: &io::Error| {
        let what = format!("{}: {}", args.file.display(), os::words(error));
        Failure::refuse(Exit::Usage, what, "name a file that this user may write")
    };
    let mut options = File::options();
    let file = options.read(true).write(true).open(&args.file);
    let file = file.map_err(|error| failed(&error))?;
    let found = file.metadata().map_err(|error| failed(&error))?;
    let image = Image::below(found.dev()).ok_or_else(|| {
        Failure::refuse(
            Exit::Usage,
            format!(
                "{} is not on a file system on a loop device",
                args.file.display()
            ),
            "make an image, a file system in it, and mount it with `-o loop`",
        )
    })?;
    let outside = args
        .pages
        .0
        .iter()
        .find(|page| page.saturating_mul(PAGE) >= found.len());
    if let Some(page) = outside {
        let what = format!("{} has no page {page}", args.file.display());
        return Err(Failure::refuse(Exit::Usage, what, "pages count from 0"));
    }
    match args.layer {
        Layer::Memory => in_memory(&file, &args.pages).map_err(|error| failed(&error))?,
        Layer::Device => on_device(&file, &image, &args.pages, &args.file)?,
        Layer::Medium => {
            return Err(Failure::refuse(
                Exit::Usage,
                "a loop device has no write cache that could hide its medium",
                "`--layer device` is the same there",
            ));
        }
    }
    let count = units::plural(args.pages.0.len() as u64, "page");
    screen::print(&format!("one bit of {count} is wrong now\n"))?;
    Ok(Exit::Done)
}

/// What a loop device is made of.
struct Image {
    path: PathBuf,
    offset: u64,
}

impl Image {
    /// Of the loop device with this number.
    fn below(device: u64) -> Option<Image> {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let about = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/loop"));
        let read = |name| fs::read_to_string(about.join(name)).ok();
        Some(Image {
            path: PathBuf::from(read("backing_file")?.trim_end_matches('\n')),
            offset: read("offset")?.trim().parse().ok()?,
        })
    }
}

fn flip(file: &File, at: u64) -> io::Result<()> {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at)?;
    file.write_all_at(&[byte[0] ^ 1], at)
}

fn in_memory(file: &File, pages: &Pages) -> io::Result<()> {
    let before = file.metadata()?.modified()?;
    pages
        .0
        .iter()
        .try_for_each(|page| flip(file, page * PAGE))?;
    file.set_modified(before)
}

fn on_device(file: &File, image: &Image, pages: &Pages, path: &Path) -> Outcome<()> {
    let refuse = |what: String| {
        let next = "name pages with data, of a file on ext4 or XFS without compression";
        Failure::refuse(Exit::Usage, what, next)
    };
    let shown = path.display();
    let extents = extents(file).map_err(|errno| {
        let error = io::Error::from(errno);
        refuse(format!(
            "where {shown} is on its device cannot be told: {}",
            os::words(&error)
        ))
    })?;
    // All of them are found before any is harmed.
    let mut places = Vec::new();
    for page in &pages.0 {
        let at = page * PAGE;
        let place = place_of(&extents, at).ok_or_else(|| {
            refuse(format!(
                "page {page} of {shown} is not on the device as it is in the file"
            ))
        })?;
        places.push(image.offset + place);
    }
    let harm = || {
        let backing = File::options().read(true).write(true).open(&image.path)?;
        places.iter().try_for_each(|place| flip(&backing, *place))?;
        backing.sync_all()
    };
    harm().map_err(|error| refuse(format!("{}: {}", image.path.display(), os::words(&error))))
}

/// Where on the device a byte of the file is.
fn place_of(extents: &[Extent], at: u64) -> Option<u64> {
    let covers = |extent: &&Extent| {
        let behind = at.checked_sub(extent.offset);
        extent.is_plain && behind.is_some_and(|behind| behind < extent.bytes)
    };
    let extent = extents.iter().find(covers)?;
    Some(extent.on_device + (at - extent.offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_numbers_and_ranges() {
        assert_eq!(pages("0,5-7"), Ok(Pages(vec![0, 5, 6, 7])));
        for bad in [
            "",
            "a",
            "7-5",
            "1-",
            "-1",
            "0-99999999",
            "0-18446744073709551615",
        ] {
            assert!(pages(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_is_on_no_loop_device_is_not_harmed() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        fs::write(&file, [7; 5000]).expect("a file");
        let args = Args {
            file: file.clone(),
            layer: Layer::Memory,
            pages: Pages(vec![0]),
        };
        let refused = run(&args).expect_err("no loop device");
        assert!(refused.what.contains("loop device"), "{refused}");
        assert_eq!(fs::read(file).expect("a file"), [7; 5000]);
    }
}
