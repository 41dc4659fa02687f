//! What is printed, and where.

use crate::failure::{Failure, Outcome};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use redundancy::status::Progress;
use serde::Serialize;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What takes no longer is not worth a word.
const QUIET: Duration = Duration::from_secs(1);

/// How often a bar is drawn anew: oftener nobody sees it, and to draw costs as much as a small file.
const REDRAWN: Duration = Duration::from_millis(100);

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
/// As [`print()`].
pub fn print_json(value: &impl Serialize) -> Outcome<()> {
    let text = serde_json::to_string(value)
        .map_err(|error| Failure::unexpected("standard output", &error))?;
    print(&format!("{text}\n"))
}

/// A progress bar on standard error, where that is a terminal and the work takes over a second.
pub struct Bar {
    bar: ProgressBar,
    next: Instant,
}

impl Bar {
    /// A bar that is not shown yet.
    pub fn new(what: &str) -> Bar {
        let bar = ProgressBar::hidden();
        bar.set_message(what.to_owned());
        Bar {
            bar,
            next: Instant::now() + QUIET,
        }
    }

    /// Shows how far it is.
    pub fn show(&mut self, progress: &Progress) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now + REDRAWN;
        if self.bar.is_hidden() && std::io::stderr().is_terminal() {
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

/// Says on standard error that something is still under way, once it has taken over a second,
/// until dropped.
pub struct Waiting {
    done: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Waiting {
    /// Begins to count.
    pub fn begin(what: &'static str) -> Waiting {
        let (done, ended) = channel::<()>();
        let thread = std::thread::spawn(move || {
            let mut seconds = 0;
            while ended
                .recv_timeout(QUIET)
                .is_err_and(|why| why == RecvTimeoutError::Timeout)
            {
                seconds += QUIET.as_secs();
                if seconds.is_power_of_two() {
                    eprintln!("holdfast: {what}, {seconds} s so far");
                }
            }
        });
        Waiting {
            done,
            thread: Some(thread),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // It has ended where nobody listens any more.
        let _ended = self.done.send(());
        if let Some(thread) = self.thread.take() {
            // A panic there was reported on standard error already.
            let _reported = thread.join();
        }
    }
}
