//! The trace as a file that is gone through twice: once to see what is there, once to simulate.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::screen::Bar;
use crate::simulate::trace::{BadLine, Format, Line, Lines, Parser, Request, Ticks, TimeUnit};
use crate::units;
use redundancy::status::Progress;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Seek as _};
use std::path::{Path, PathBuf};

/// Most bad lines that a message names.
const NAMED: usize = 10;

/// Bad lines after which reading stops: the file is something else.
const BAD_LINES_MAX: u64 = 1000;

/// Lines between two looks at the progress.
const BAR_EVERY: u64 = 65_536;

/// What came of the lines.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Read {
    /// Disks met.
    pub(super) disks: usize,
    /// Operations that neither read nor write, by SCSI code.
    pub(super) other: BTreeMap<u8, u64>,
    /// Lines that are none of the format.
    pub(super) bad: u64,
    /// The first of them: number from 1, and why.
    pub(super) named: Vec<(u64, BadLine)>,
    /// Requests that came with an earlier time than one before; they count as of that time.
    pub(super) backwards: u64,
    /// Requests.
    pub(super) requests: u64,
}

/// Why a trace cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum TraceError {
    /// The file.
    #[error("the trace {} cannot be read: {}", path.display(), crate::os::words(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No format fits.
    #[error("the trace {} is of no known format: its first line has {fields} fields", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Fields of its first line.
        fields: usize,
    },
    /// Too many bad lines.
    #[error("the trace {} has {}:\n{}", path.display(), how_many(read.bad), lines(read))]
    Bad {
        /// The file.
        path: PathBuf,
        /// What came of the lines.
        read: Read,
    },
    /// Nothing in it.
    #[error("the trace {} has no reads and writes", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// It is not what it was.
    #[error("the trace {} changed while it was read", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
}

fn how_many(bad: u64) -> String {
    let count = units::plural(bad, "bad line");
    if bad > BAD_LINES_MAX {
        return format!("more than {}", units::plural(BAD_LINES_MAX, "bad line"));
    }
    count
}

fn lines(read: &Read) -> String {
    let mut text: Vec<String> = read
        .named
        .iter()
        .map(|(number, why)| format!("    line {number}: {why}"))
        .collect();
    if read.bad > read.named.len() as u64 {
        text.push("    ...".to_owned());
    }
    text.join("\n")
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Failure {
        let next = match &error {
            TraceError::Io { .. } => {
                "correct the path given by --trace; it has to be a file, which is read twice"
            }
            TraceError::Unknown { .. } => {
                "MSR traces have 7 fields a line, CloudPhysics CSV 5, with commas between\n\
                 unpack a compressed trace first"
            }
            TraceError::Bad { .. } => {
                "correct the lines, name the other --format, or go on without them: --bad-lines N"
            }
            TraceError::Empty { .. } => "give a trace with reads and writes",
            TraceError::Changed { .. } => "run again when nothing writes to it",
        };
        Failure::refuse(Exit::BadTrace, error.to_string(), next)
    }
}

/// A trace file, opened, and its format known.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    file: File,
    length: u64,
    /// Its format.
    pub(super) format: Format,
    unit: TimeUnit,
    bad_lines_max: u64,
}

impl Source {
    /// Opens a trace; finds its format by the first line where none is given.
    pub(super) fn open(
        path: &Path,
        format: Option<Format>,
        unit: TimeUnit,
        bad_lines_max: u64,
    ) -> Result<Source, TraceError> {
        let io = |source| TraceError::Io {
            path: path.to_path_buf(),
            source,
        };
        let mut file = File::open(path).map_err(io)?;
        let about = file.metadata().map_err(io)?;
        if !about.is_file() {
            let source = std::io::Error::from(rustix::io::Errno::ISDIR);
            let pipe = std::io::Error::from(rustix::io::Errno::SPIPE);
            return Err(io(if about.is_dir() { source } else { pipe }));
        }
        let format = match format {
            Some(format) => format,
            None => detect(path, &file)?,
        };
        file.rewind().map_err(io)?;
        Ok(Source {
            path: path.to_path_buf(),
            file,
            length: about.len(),
            format,
            unit,
            bad_lines_max,
        })
    }

    /// Calls `each` with every read and write, in the order of the file, with times that never
    /// go back.
    pub(super) fn pass(
        &self,
        what: &str,
        mut each: impl FnMut(Request),
    ) -> Result<Read, TraceError> {
        let io = |source| TraceError::Io {
            path: self.path.clone(),
            source,
        };
        (&self.file).rewind().map_err(io)?;
        let mut bar = Bar::new(what);
        let mut lines = Lines::new(BufReader::with_capacity(1 << 20, &self.file));
        let mut parser = Parser::new(self.format, self.unit);
        let mut read = Read::default();
        let mut latest = Ticks(0);
        let mut number = 0u64;
        while let Some(line) = lines.next_line().map_err(io)? {
            number += 1;
            match parser.line(line) {
                Ok(Line::Request(mut request)) => {
                    read.requests += 1;
                    read.backwards += u64::from(request.at < latest);
                    latest = latest.max(request.at);
                    request.at = latest;
                    each(request);
                }
                Ok(Line::Other(code)) => *read.other.entry(code).or_default() += 1,
                Ok(Line::Header | Line::Blank) => {}
                Err(why) => {
                    read.bad += 1;
                    if read.named.len() < NAMED {
                        read.named.push((number, why));
                    }
                    if read.bad > BAD_LINES_MAX.max(self.bad_lines_max) {
                        break;
                    }
                }
            }
            if number.is_multiple_of(BAR_EVERY) {
                bar.show(&Progress {
                    bytes_done: lines.bytes(),
                    bytes_total: Some(self.length),
                    ..Progress::default()
                });
            }
        }
        read.disks = parser.volumes().len().max(1);
        let path = self.path.clone();
        if read.bad > self.bad_lines_max {
            return Err(TraceError::Bad { path, read });
        }
        if read.requests == 0 {
            return Err(TraceError::Empty { path });
        }
        Ok(read)
    }

    /// The error of two passes that did not find the same.
    pub(super) fn changed(&self) -> TraceError {
        TraceError::Changed {
            path: self.path.clone(),
        }
    }
}

fn detect(path: &Path, file: &File) -> Result<Format, TraceError> {
    let mut lines = Lines::new(BufReader::new(file));
    loop {
        let line = lines.next_line().map_err(|source| TraceError::Io {
            path: path.to_path_buf(),
            source,
        })?;
        let Some(line) = line else {
            return Err(TraceError::Empty {
                path: path.to_path_buf(),
            });
        };
        let line = line.trim_ascii();
        if !line.is_empty() {
            return Format::detect(line).ok_or_else(|| TraceError::Unknown {
                path: path.to_path_buf(),
                fields: line.split(|byte| *byte == b',').count(),
            });
        }
    }
}
