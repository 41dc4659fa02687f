//! The canary: networks with planted bugs, each of which a case of the contract or a fault must
//! bring to light.

use crate::cases::Case;
use crate::{Place, cases, faults};
use holdfast_env::errno::Errno;
use holdfast_env::sim::Network;
use holdfast_env::{Address, Bell, Listener, Moment, Net, Result, Stream, Task};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What is wrong with a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    /// Nothing: the control.
    None,
    /// A connection begins with what was last sent on an earlier one.
    SendsAgainAfterReconnect,
    /// A lost connection looks like an end.
    LossIsAnEnd,
    /// A lost connection looks like an end once the loss was told, as the kernel has it.
    LossIsToldOnce,
    /// What is sent after a failed send goes out as if nothing were missing.
    GapsAreFilled,
    /// In a piece in twenty the first byte comes last.
    Reorders,
    /// The last byte before the end is not sent.
    DropsTheLastByte,
    /// To close does nothing.
    StaysOpen,
    /// A receive that misses its deadline throws away what comes next.
    LosesAfterTimeout,
    /// Whoever finishes cannot receive any more.
    FinishClosesBoth,
    /// A partition lets everything through. Only where there are partitions.
    IgnoresPartitions,
    /// What was sent before a partition healed arrives again. Only where there are partitions.
    RepeatsAfterHeal,
    /// A ring between a look and the wait is missed.
    MissesRings,
}

struct DeafBell(Arc<dyn Bell>);

impl Bell for DeafBell {
    fn count(&self) -> u64 {
        self.0.count()
    }

    fn ring(&self) {
        self.0.ring();
    }

    fn wait(&self, _seen: u64, deadline: Moment) -> Result<()> {
        self.0.wait(self.0.count(), deadline)
    }
}

struct Wrapped {
    net: Arc<dyn Net>,
    bug: Bug,
    network: Option<Network>,
    sent_last: Arc<Mutex<Vec<u8>>>,
}

struct WrappedListener(Arc<dyn Listener>, Bug, Option<Network>);

struct WrappedStream {
    stream: Arc<dyn Stream>,
    bug: Bug,
    network: Option<Network>,
    sent_last: Arc<Mutex<Vec<u8>>>,
    held_back: Mutex<Vec<u8>>,
    told: AtomicBool,
    late: AtomicBool,
    pieces: AtomicUsize,
}

fn wrap_stream(
    stream: Arc<dyn Stream>,
    bug: Bug,
    network: Option<Network>,
    sent_last: Arc<Mutex<Vec<u8>>>,
) -> Arc<dyn Stream> {
    Arc::new(WrappedStream {
        stream,
        bug,
        network,
        sent_last,
        held_back: Mutex::default(),
        told: AtomicBool::new(false),
        late: AtomicBool::new(false),
        pieces: AtomicUsize::new(0),
    })
}

impl Net for Wrapped {
    fn listen(&self, at: &Address) -> Result<Arc<dyn Listener>> {
        let listener = self.net.listen(at)?;
        Ok(Arc::new(WrappedListener(
            listener,
            self.bug,
            self.network.clone(),
        )))
    }

    fn connect(&self, to: &Address, deadline: Moment) -> Result<Arc<dyn Stream>> {
        if let (Bug::IgnoresPartitions, Some(network)) = (self.bug, &self.network) {
            network.heal("left", "right");
        }
        let stream = self.net.connect(to, deadline)?;
        if self.bug == Bug::SendsAgainAfterReconnect {
            stream.send(&self.sent_last.lock().unwrap(), deadline)?;
        }
        let (network, sent_last) = (self.network.clone(), self.sent_last.clone());
        Ok(wrap_stream(stream, self.bug, network, sent_last))
    }

    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Task>> {
        self.net.spawn(name, work)
    }

    fn bell(&self) -> Arc<dyn Bell> {
        let bell = self.net.bell();
        match self.bug {
            Bug::MissesRings => Arc::new(DeafBell(bell)),
            _ => bell,
        }
    }
}

impl Listener for WrappedListener {
    fn address(&self) -> &Address {
        self.0.address()
    }

    fn accept(&self, deadline: Moment) -> Result<Arc<dyn Stream>> {
        let (stream, network) = (self.0.accept(deadline)?, self.2.clone());
        Ok(wrap_stream(stream, self.1, network, Arc::default()))
    }

    fn close(&self) {
        if self.1 != Bug::StaysOpen {
            self.0.close();
        }
    }
}

impl Stream for WrappedStream {
    fn peer(&self) -> &Address {
        self.stream.peer()
    }

    fn receive(&self, buffer: &mut [u8], deadline: Moment) -> Result<usize> {
        if self.bug == Bug::LosesAfterTimeout && self.late.swap(false, Ordering::Relaxed) {
            self.stream.receive(&mut [0; 1], deadline)?;
        }
        let answer = self.stream.receive(buffer, deadline);
        if answer == Err(Errno::TIMEDOUT) {
            self.late.store(true, Ordering::Relaxed);
        }
        let lost = answer == Err(Errno::CONNRESET);
        match self.bug {
            Bug::LossIsAnEnd if lost => Ok(0),
            Bug::LossIsToldOnce if lost && self.told.swap(true, Ordering::Relaxed) => Ok(0),
            Bug::Reorders if self.pieces.fetch_add(1, Ordering::Relaxed) % 20 == 1 => {
                if let Ok(count) = answer {
                    buffer[..count].rotate_left(1);
                }
                answer
            }
            _ => answer,
        }
    }

    fn send(&self, data: &[u8], deadline: Moment) -> Result<()> {
        if let (Bug::IgnoresPartitions, Some(network)) = (self.bug, &self.network) {
            network.heal("left", "right");
        }
        *self.sent_last.lock().unwrap() = data.to_vec();
        if self.bug == Bug::DropsTheLastByte
            && let Some((last, data)) = data.split_last()
        {
            let held = std::mem::replace(&mut *self.held_back.lock().unwrap(), vec![*last]);
            return self.stream.send(&[&held, data].concat(), deadline);
        }
        let answer = self.stream.send(data, deadline);
        match self.bug {
            Bug::GapsAreFilled => answer.or(Ok(())),
            Bug::RepeatsAfterHeal => {
                // As a layer that sends again what was not answered in time.
                let past = Moment(0);
                answer.and_then(|()| self.stream.send(data, past).or(Ok(())))
            }
            _ => answer,
        }
    }

    fn finish(&self) -> Result<()> {
        self.stream.finish()?;
        if self.bug == Bug::FinishClosesBoth {
            self.stream.close();
        }
        Ok(())
    }

    fn close(&self) {
        if self.bug != Bug::StaysOpen {
            self.stream.close();
        }
    }
}

fn wrap(place: Place, bug: Bug, network: Option<&Network>) -> Place {
    let wrap = |net: Arc<dyn Net>| -> Arc<dyn Net> {
        Arc::new(Wrapped {
            net,
            bug,
            network: network.cloned(),
            sent_last: Arc::default(),
        })
    };
    Place {
        left: wrap(place.left),
        right: wrap(place.right),
        patience: match bug {
            Bug::None => place.patience,
            // It may keep a case waiting for what it has lost.
            _ => Duration::from_secs(3),
        },
        ..place
    }
}

/// What a deviant is to be found by.
const FOUND_BY: &[(Bug, Case)] = &[
    (Bug::SendsAgainAfterReconnect, cases::fresh),
    (Bug::LossIsAnEnd, cases::lost),
    (Bug::LossIsToldOnce, cases::lost),
    (Bug::GapsAreFilled, cases::gap),
    (Bug::Reorders, cases::both_directions),
    (Bug::DropsTheLastByte, cases::dropped),
    (Bug::StaysOpen, cases::closed_stream),
    (Bug::StaysOpen, cases::closed_listener),
    (Bug::LosesAfterTimeout, cases::goes_on),
    (Bug::FinishClosesBoth, cases::finished),
    (Bug::MissesRings, cases::silence),
];

const FOUND_BY_FAULTS: &[(Bug, faults::Case)] = &[
    (Bug::IgnoresPartitions, faults::unreachable),
    (Bug::IgnoresPartitions, faults::partition),
    (Bug::RepeatsAfterHeal, faults::partition),
];

fn complains(case: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(case)).is_err()
}

#[test]
fn every_deviant_is_found_on_both() {
    for (bug, case) in FOUND_BY {
        for bug in [*bug, Bug::None] {
            println!("{bug:?}");
            let found = bug != Bug::None;
            let real = wrap(Place::real("127.0.0.1"), bug, None);
            assert_eq!(complains(|| case(&real)), found, "{bug:?}, real");
            let network = Network::new(1);
            let simulated = wrap(Place::simulated(&network), bug, Some(&network));
            assert_eq!(complains(|| case(&simulated)), found, "{bug:?}, simulated");
        }
    }
}

#[test]
fn every_deviant_of_partitions_is_found() {
    for (bug, case) in FOUND_BY_FAULTS {
        for bug in [*bug, Bug::None] {
            let network = Network::new(1);
            let place = wrap(Place::simulated(&network), bug, Some(&network));
            let complains = complains(|| case(&network, &place));
            assert_eq!(complains, bug != Bug::None, "{bug:?}");
        }
    }
}
