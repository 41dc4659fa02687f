//! What is printed, and where.

use crate::failure::{Failure, Outcome};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use redundancy::status::Progress;
use serde::Serialize;
use std::io::{ErrorKind, IsTerminal, Write};
use std::time::Duration;

/// Prints text to standard output. A reader that has gone away (`| head`) is no error.
///
/// # Errors
/// Standard output cannot be written, for example a full disk.
pub fn print(text: &str) -> Outcome<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| Failure::unexpected("standard output", &error)),
    }
}

/// Prints one JSON value and a newline to standard output.
///
/// # Errors
/// As [`print`].
pub fn print_json(value: &impl Serialize) -> Outcome<()> {
    let text = serde_json::to_string(value)
        .map_err(|error| Failure::unexpected("standard output", &error))?;
    print(&format!("{text}\n"))
}

/// A progress bar on standard error, where that is a terminal and the work takes over a second.
pub struct Bar {
    bar: ProgressBar,
    started: std::time::Instant,
}

impl Bar {
    /// A bar that is not shown yet.
    pub fn new(what: &str) -> Bar {
        let bar = ProgressBar::hidden();
        bar.set_message(what.to_owned());
        Bar {
            bar,
            started: std::time::Instant::now(),
        }
    }

    /// Shows how far it is.
    pub fn show(&mut self, progress: &Progress) {
        let late = self.started.elapsed() > Duration::from_secs(1);
        if self.bar.is_hidden() && late && std::io::stderr().is_terminal() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        let template = match progress.bytes_total {
            Some(total) => {
                self.bar.set_length(total);
                "{msg} [{bar:30}] {percent}% {bytes} of {total_bytes}, {eta} left"
            }
            None => "{msg} {spinner} {bytes}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style.progress_chars("#>."));
        }
        self.bar.set_position(progress.bytes_done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
