//! SIGINT and SIGTERM of a process that serves.

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Signals that end the process at once, counted from the first.
const SIGNALS_TO_ABANDON: u32 = 3;

/// Hands the first signal on; lasts until dropped.
pub struct Signals(signal_hook::iterator::Handle);

impl Signals {
    /// Calls `first` with the number of the first signal. The second one says that the stop goes
    /// on, the third ends the process. `synced` says then where what was synced is.
    ///
    /// # Errors
    /// The system gives no handler or no thread.
    pub fn forward<F>(synced: &'static str, first: F) -> Outcome<Signals>
    where
        F: FnOnce(i32) + Send + 'static,
    {
        let fault = |error: std::io::Error| Failure::unexpected("signals", &error);
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(fault)?;
        let handle = signals.handle();
        let mut first = Some(first);
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for (seen, signal) in (1..).zip(signals.forever()) {
                    if let Some(first) = first.take() {
                        first(signal);
                    } else if seen < SIGNALS_TO_ABANDON {
                        eprintln!("still stopping; once more ends at once, without a clean stop");
                    } else {
                        eprintln!("ended without a clean stop; what was synced is on {synced}");
                        std::process::exit(i32::from(Exit::Failed.number()));
                    }
                }
            })
            .map_err(fault)?;
        Ok(Signals(handle))
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A signal's name, for people.
pub fn name(signal: i32) -> &'static str {
    signal_hook::low_level::signal_name(signal).unwrap_or("a signal")
}
