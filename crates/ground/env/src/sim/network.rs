//! A simulated network: hosts, connections that obey a seed, and threads that take turns.
//!
//! What TCP promises holds here, and not a bit more: bytes arrive in order, in pieces and at times
//! that the seed picks, connections overtake each other, and when one is lost a prefix has arrived.
//! [`Network::cut_after`] loses a connection after any number of bytes, so that a test can try each
//! one, as [`crash`](super::crash) tries each write.
//!
//! Threads that [`Net::spawn`](crate::Net::spawn) starts run one at a time; the seed picks who goes
//! on when one waits, and the clock moves only when all do. So a run follows from the seed, and a
//! deadline of hours costs nothing. It works as long as nobody waits outside of this crate: a thread
//! must not hold a lock that another wants while it is in a call, and who asks again and again without
//! waiting lets no time pass. A host's disks are those of a [`World`](super::World) of its own, whose
//! clock is not this one.
//!
//! ```
//! # use holdfast_env as env;
//! use env::{Address, Clock, Moment, Net, sim::Network};
//! use std::time::Duration;
//! let network = Network::new(7);
//! let (a, b) = (network.host("a"), network.host("b"));
//! let listener = b.listen(&Address::new("b", 7400))?;
//! let server = b.spawn("server", Box::new(move || {
//!     let stream = listener.accept(Moment::NEVER).expect("a client");
//!     stream.send(b"hello", Moment::NEVER).expect("sends");
//! }))?;
//! network.cut_after("b", "a", 3);
//! let deadline = network.clock().now().after(Duration::from_secs(10));
//! let stream = a.connect(&Address::new("b", 7400), deadline)?;
//! let mut received = Vec::new();
//! let mut buffer = [0; 10];
//! let end = loop {
//!     match stream.receive(&mut buffer, deadline) {
//!         Ok(count) if count > 0 => received.extend_from_slice(&buffer[..count]),
//!         end => break end,
//!     }
//! };
//! assert!(b"hel".starts_with(&received), "what has arrived is a prefix");
//! assert_eq!(end, Err(env::errno::Errno::CONNRESET));
//! server.join().expect("no panic");
//! # Ok::<(), env::errno::Errno>(())
//! ```

mod faults;
mod handle;
mod turn;
mod wire;

pub use handle::SimNet;

use crate::clock::{Clock, Moment};
use crate::{Result, Rng};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use turn::{Step, Turns};
use wire::Wire;

/// How the network is when nothing goes wrong, and how often something does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conditions {
    /// The least time from one host to another.
    pub delay_min: Duration,
    /// The most.
    pub delay_max: Duration,
    /// Most bytes that travel together.
    pub segment_bytes_max: usize,
    /// One of so many segments loses its connection, somewhere within it; 0 for none.
    pub cut_one_in: u64,
}

impl Default for Conditions {
    /// A quiet local network: 50 to 500 microseconds, segments of Ethernet's size, nothing lost.
    fn default() -> Conditions {
        Conditions {
            delay_min: Duration::from_micros(50),
            delay_max: Duration::from_micros(500),
            segment_bytes_max: 1460,
            cut_one_in: 0,
        }
    }
}

/// A simulated network; clones are the same one. Everything that is left to chance follows from the
/// seed and the order of calls.
#[derive(Clone)]
pub struct Network {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Signalled when another thread has the turn.
    turn: Condvar,
}

struct State {
    now: Moment,
    rng: Rng,
    turns: Turns,
    wire: Wire,
}

impl Network {
    /// A network without hosts.
    pub fn new(seed: u64) -> Network {
        let state = State {
            now: Moment(0),
            rng: Rng::new(seed),
            turns: Turns::default(),
            wire: Wire::default(),
        };
        Network {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                turn: Condvar::new(),
            }),
        }
    }

    /// The network as the host of this name sees it. The host is made where there is none, and
    /// started where it is down.
    pub fn host(&self, name: &str) -> Arc<SimNet> {
        let life = self.lock().start(name);
        Arc::new(SimNet::new(self.clone(), name, life))
    }

    /// The clock of all hosts. It moves only while everybody waits.
    pub fn clock(&self) -> NetworkClock {
        NetworkClock(self.clone())
    }

    /// A generator for the test's own choices.
    pub fn rng(&self) -> Rng {
        self.lock().rng.fork()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of the program under test does not harm the network.
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

/// The clock of a [`Network`].
#[derive(Clone)]
pub struct NetworkClock(Network);

impl Clock for NetworkClock {
    fn now(&self) -> Moment {
        self.0.lock().now
    }

    fn sleep_until(&self, moment: Moment) {
        let passed = |state: &mut State| {
            if state.now < moment {
                Step::Wait(moment)
            } else {
                Step::Done(())
            }
        };
        let slept: Result<()> = self.0.wait(Moment::NEVER, passed);
        debug_assert!(slept.is_ok(), "a wait without a deadline does not miss it");
    }
}
