//! From one place of this machine to another: both sides in one process.

use crate::error::TransferError;
use crate::receiver::{Destination, Settings, receive};
use crate::report::{Progress, Report};
use crate::sender::{Delta, Options, send};
use env::Clock;
use env::real::{RealClock, RealNet, connected_pair};
use rpc::{Connection, Limits, Role};
use std::path::Path;
use std::time::Duration;

/// How long the last words of the two sides may take.
const FAREWELL: Duration = Duration::from_secs(10);

/// Sends the tree (or the file) at `source` to the directory `destination`.
///
/// Files that differ are sent whole, but where the options ask always for changed parts: to find
/// those, both files are read here.
///
/// # Errors
/// As [`send()`].
pub fn local(
    source: &Path,
    destination: &Path,
    options: &Options,
    settings: &Settings,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, TransferError> {
    let (here, there) = connected_pair().map_err(TransferError::io("a pair of sockets"))?;
    let limits = Limits::default();
    let mut options = options.clone();
    if options.delta == Delta::Auto {
        options.delta = Delta::Never;
    }
    std::thread::scope(|scope| {
        let server = Connection::start(there, &RealNet, Role::Server, limits)?;
        let client = Connection::start(here, &RealNet, Role::Client, limits)?;
        let receiver = scope.spawn(move || {
            let received = receive(Destination::At(destination), &server, &RealClock, settings);
            // The sender may have ended already.
            let _ended = server.close(RealClock.now().after(FAREWELL));
            received
        });
        let sent = send(source, &client, &RealClock, &options, progress);
        let _ended = client.close(RealClock.now().after(FAREWELL));
        let received = receiver.join();
        let received = received.unwrap_or(Err(TransferError::Violation("a thread panicked")));
        // The receiver's error has reached the sender, where there was one.
        let report = sent?;
        received?;
        Ok(report)
    })
}
