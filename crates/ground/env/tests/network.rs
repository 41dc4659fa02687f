//! What every implementation of `Net` keeps to: the same cases run against the real network and the
//! simulated one. What only a simulated one can be asked for is in `network/faults.rs`, and
//! protocols with planted bugs, which faults must bring to light, in `network/protocol.rs`.

use holdfast_env::real::{RealClock, RealNet};
use holdfast_env::sim::Network;
use holdfast_env::sim::network::Conditions;
use holdfast_env::{Address, Clock, Listener, Moment, Net, Stream};
use std::sync::Arc;
use std::time::Duration;

#[path = "network/cases.rs"]
mod cases;
#[path = "network/deviant.rs"]
mod deviant;
#[path = "network/faults.rs"]
mod faults;
#[path = "network/protocol.rs"]
mod protocol;

/// Two hosts of one network.
struct Place {
    left: Arc<dyn Net>,
    right: Arc<dyn Net>,
    /// What the left calls the right, and the right itself.
    host: String,
    /// A host that neither of them is.
    foreign: String,
    clock: Arc<dyn Clock>,
    /// More bytes than fit into a connection.
    plenty: usize,
    /// How long to wait for what should happen.
    patience: Duration,
}

impl Place {
    fn real(host: &str) -> Place {
        Place {
            left: Arc::new(RealNet),
            right: Arc::new(RealNet),
            host: host.to_owned(),
            // For documentation (RFC 5737).
            foreign: "192.0.2.1".to_owned(),
            clock: Arc::new(RealClock),
            // net.ipv4.tcp_wmem and tcp_rmem end at 4 and 6 MiB.
            plenty: 12 << 20,
            patience: Duration::from_secs(60),
        }
    }

    fn simulated(network: &Network) -> Place {
        network.host("elsewhere");
        Place {
            left: network.host("left"),
            right: network.host("right"),
            host: "right".to_owned(),
            foreign: "elsewhere".to_owned(),
            clock: Arc::new(network.clock()),
            plenty: 150_000,
            patience: Duration::from_secs(60),
        }
    }

    /// A deadline for what should happen.
    fn soon(&self) -> Moment {
        self.clock.now().after(self.patience)
    }

    /// A deadline for what should not.
    fn shortly(&self) -> Moment {
        self.clock.now().after(Duration::from_millis(30))
    }

    fn listen(&self) -> Arc<dyn Listener> {
        self.right.listen(&Address::new(&self.host, 0)).unwrap()
    }

    fn connect(&self, to: &dyn Listener) -> Arc<dyn Stream> {
        self.left.connect(to.address(), self.soon()).unwrap()
    }

    /// Both ends of a connection: the left one and the right one.
    fn pair(&self) -> (Arc<dyn Stream>, Arc<dyn Stream>) {
        let listener = self.listen();
        let left = self.connect(listener.as_ref());
        (left, listener.accept(self.soon()).unwrap())
    }
}

/// Receives until the end, or the error instead of one.
fn drain(stream: &dyn Stream, deadline: Moment) -> (Vec<u8>, holdfast_env::Result<()>) {
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.receive(&mut buffer, deadline) {
            Ok(0) => return (received, Ok(())),
            Ok(count) => received.extend_from_slice(&buffer[..count]),
            Err(errno) => return (received, Err(errno)),
        }
    }
}

/// Receives so many bytes.
fn receive(stream: &dyn Stream, count: usize, deadline: Moment) -> holdfast_env::Result<Vec<u8>> {
    let mut received = vec![0; count];
    let mut done = 0;
    while done < count {
        match stream.receive(&mut received[done..], deadline)? {
            0 => return Err(holdfast_env::errno::Errno::NODATA),
            more => done += more,
        }
    }
    Ok(received)
}

#[test]
fn the_real_network_keeps_the_contract() {
    // A name, and both versions of IP where the machine has them.
    for host in ["127.0.0.1", "localhost", "::1"] {
        let place = Place::real(host);
        if let Err(errno) = place.right.listen(&Address::new(host, 0)) {
            assert_eq!((host, errno), ("::1", cases::NO_SUCH_ADDRESS));
            continue;
        }
        for (name, case) in cases::ALL {
            println!("{host}: {name}");
            case(&place);
        }
    }
}

#[test]
fn the_simulated_network_keeps_the_contract() {
    for seed in 0..18 {
        let network = Network::new(seed);
        network.set_conditions(Conditions {
            delay_max: Duration::from_micros([0, 100, 5000][seed as usize % 3]),
            delay_min: Duration::ZERO,
            segment_bytes_max: [7, 1460, 1 << 20][seed as usize / 3 % 3],
            cut_one_in: 0,
        });
        for (name, case) in cases::ALL {
            println!("seed {seed}: {name}");
            case(&Place::simulated(&network));
        }
    }
}
