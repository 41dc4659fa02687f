use super::*;
use crate::{Connection, Limits, Role, RpcError};
use env::sim::{Harm, Network, harmed};
use env::{Address, Clock, Moment, Net, Stream};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const HOUR: Duration = Duration::from_secs(3600);

/// An authority, and whom it vouches for.
struct Set {
    authority: Authority,
    certificate: String,
}

impl Set {
    fn new() -> Set {
        let authority = Authority::new().unwrap();
        let certificate = authority.certificate(HOUR).unwrap();
        // What is kept of it is its key.
        let authority = Authority::from_key(&authority.key()).unwrap();
        Set {
            authority,
            certificate,
        }
    }

    fn credentials(&self, name: &str) -> Credentials {
        let now = SystemTime::now();
        self.between(name, now - HOUR, now + HOUR)
    }

    fn between(&self, name: &str, from: SystemTime, to: SystemTime) -> Credentials {
        let issued = self.authority.issue(name, from, to).unwrap();
        let (certificate, key) = (issued.certificate.as_bytes(), issued.key.as_bytes());
        Credentials::new(certificate, key, self.certificate.as_bytes()).unwrap()
    }
}

/// What a client and a server found of each other.
struct Meeting {
    client: Result<(), RpcError>,
    server: Result<Option<String>, RpcError>,
    /// What the server was asked.
    asked: Vec<Vec<u8>>,
}

type Connect = Box<dyn Fn(Arc<dyn Stream>, Moment) -> Result<Arc<dyn Stream>, RpcError>>;

fn with(credentials: Credentials, name: &'static str) -> Connect {
    Box::new(move |stream, deadline| {
        let tls = TlsStream::connect(stream, &credentials, name, deadline)?;
        Ok(Arc::new(tls))
    })
}

/// One request over a new connection, which the client makes as `connect` does.
fn meet(seed: u64, connect: &Connect, server: Credentials, harm: Harm) -> Meeting {
    let network = Network::new(seed);
    let (left, right) = (network.host("left"), network.host("right"));
    let listener = right.listen(&Address::new("right", 0)).unwrap();
    let deadline = network.clock().now().after(Duration::from_secs(60));
    let found = Arc::new(Mutex::new((Err(RpcError::Closed), Vec::new())));
    let (accepting, telling, net) = (listener.clone(), found.clone(), right.clone());
    let serve = move || {
        let stream = accepting.accept(deadline).unwrap();
        let stream = harmed(stream, harm, Arc::default());
        let tls = match TlsStream::accept(stream, &server, deadline) {
            Ok(tls) => tls,
            Err(error) => {
                telling.lock().0 = Err(error);
                return;
            }
        };
        telling.lock().0 = Ok(tls.peer_name());
        let stream = Arc::new(tls);
        let limits = Limits::default();
        let connection =
            Connection::start(stream, net.as_ref(), Role::Server, limits).expect("threads");
        while let Ok(channel) = connection.accept(deadline) {
            if let Ok(Some(message)) = channel.receive(deadline) {
                telling.lock().1.push(message.bulk.clone());
                let _lost = channel.send(&message.body, &message.bulk, deadline);
                let _lost = channel.finish();
            }
        }
    };
    let task = right.spawn("server", Box::new(serve)).unwrap();
    let ask = || {
        let stream = connect(left.connect(listener.address(), deadline)?, deadline)?;
        let connection = Connection::start(stream, left.as_ref(), Role::Client, Limits::default())?;
        let bulk = vec![7; 700_000];
        let answer = connection.call(b"ask", &bulk, deadline)?;
        assert!(answer.body == b"ask" && answer.bulk == bulk);
        connection.close(deadline)
    };
    let client = ask();
    listener.close();
    task.join().unwrap();
    let (server, asked) = std::mem::replace(&mut *found.lock(), (Err(RpcError::Closed), vec![]));
    Meeting {
        client,
        server,
        asked,
    }
}

#[test]
fn machines_of_one_authority_know_each_other_by_name() {
    let set = Set::new();
    let (client, server) = (set.credentials("left"), set.credentials("right"));
    assert_eq!(client.name().as_deref(), Some("left"));
    let met = meet(1, &with(client, "right"), server, Harm::None);
    assert_eq!(met.client, Ok(()));
    assert_eq!(met.server, Ok(Some("left".to_owned())));
    assert_eq!(met.asked.len(), 1);
    // By address too.
    let (client, server) = (set.credentials("left"), set.credentials("10.1.2.3"));
    let met = meet(1, &with(client, "10.1.2.3"), server, Harm::None);
    assert_eq!(met.client, Ok(()));
}

#[test]
fn nothing_is_asked_of_or_by_a_machine_that_is_not_trusted() {
    use Distrust::{Expired, Missing, Name, Stranger};
    let (set, other) = (Set::new(), Set::new());
    let now = SystemTime::now();
    let old = |name| set.between(name, now - 2 * HOUR, now - HOUR);
    let early = |name| set.between(name, now + HOUR, now + 2 * HOUR);
    let mine = |name| set.credentials(name);
    let authority = set.certificate.clone();
    let bare: Connect = Box::new(move |stream, deadline| {
        let config = Credentials::without_certificate(authority.as_bytes());
        let tls = TlsStream::connect_with(stream, config, "right", deadline)?;
        Ok(Arc::new(tls))
    });
    let right = "right";
    // Which client, which server, and who finds what wrong with the other.
    let cases: [(&str, Connect, Credentials, Distrust, bool); 8] = [
        (
            "an expired server",
            with(mine("left"), right),
            old(right),
            Expired,
            true,
        ),
        (
            "an expired client",
            with(old("left"), right),
            mine(right),
            Expired,
            false,
        ),
        (
            "a server to come",
            with(mine("left"), right),
            early(right),
            Expired,
            true,
        ),
        (
            "a client to come",
            with(early("left"), right),
            mine(right),
            Expired,
            false,
        ),
        (
            "another server",
            with(mine("left"), right),
            mine("wrong"),
            Name,
            true,
        ),
        ("no certificate", bare, mine(right), Missing, false),
        (
            "a server of another authority",
            with(mine("left"), right),
            other.credentials(right),
            Stranger,
            true,
        ),
        (
            // It trusts the server: only its own certificate is of another authority.
            "a client of another authority",
            with(mixed(&other, &set), right),
            mine(right),
            Stranger,
            false,
        ),
    ];
    for (name, connect, server, why, by_client) in cases {
        let met = meet(3, &connect, server, Harm::None);
        let (client, server) = (met.client.unwrap_err(), met.server.unwrap_err());
        if by_client {
            assert_eq!(client, RpcError::Distrusts(why), "{name}");
            assert!(
                matches!(server, RpcError::Distrusted(_)),
                "{name}: {server}"
            );
        } else {
            assert_eq!(client, RpcError::Distrusted(why), "{name}");
            assert_eq!(server, RpcError::Distrusts(why), "{name}");
        }
        assert!(met.asked.is_empty(), "{name}");
    }
}

/// A certificate of one authority, with trust in another.
fn mixed(own: &Set, trusted: &Set) -> Credentials {
    let now = SystemTime::now();
    let issued = own.authority.issue("left", now - HOUR, now + HOUR).unwrap();
    let (certificate, key) = (issued.certificate.as_bytes(), issued.key.as_bytes());
    Credentials::new(certificate, key, trusted.certificate.as_bytes()).unwrap()
}

#[test]
fn a_peer_that_speaks_in_the_clear_is_sent_away() {
    let set = Set::new();
    let plain: Connect = Box::new(|stream, _| Ok(stream));
    let met = meet(5, &plain, set.credentials("right"), Harm::None);
    assert!(met.client.is_err());
    assert!(matches!(met.server, Err(RpcError::Tls(_))));
    assert!(met.asked.is_empty());
}

#[test]
fn what_is_changed_or_cut_on_the_way_is_never_taken_for_data() {
    let set = Set::new();
    let mut met_harm = 0;
    for at in (0..60).map(|step| step * step * 200) {
        for harm in [Harm::Flip(at), Harm::Cut(at)] {
            let (client, server) = (set.credentials("left"), set.credentials("right"));
            let met = meet(at, &with(client, "right"), server, harm);
            let whole = vec![7; 700_000];
            assert!(met.asked.iter().all(|asked| *asked == whole), "{harm:?}");
            met_harm += usize::from(met.client.is_err());
        }
    }
    assert!(met_harm > 110, "{met_harm} of 120 met the conversation");
}

#[test]
fn what_is_no_name_gets_no_certificate() {
    let set = Set::new();
    let now = SystemTime::now();
    for name in ["", "a b", "host:22", "../up", "-"] {
        let issued = set.authority.issue(name, now, now + HOUR);
        assert!(matches!(issued, Err(AuthorityError::Name(_))), "{name:?}");
    }
    let issued = set.authority.issue("a.example", now, now + HOUR).unwrap();
    let junk = Credentials::new(b"", issued.key.as_bytes(), set.certificate.as_bytes());
    assert!(matches!(
        junk,
        Err(CredentialsError::Unreadable("certificate"))
    ));
    // A key that is another's.
    let other = set.authority.issue("b.example", now, now + HOUR).unwrap();
    let (certificate, key) = (issued.certificate.as_bytes(), other.key.as_bytes());
    let unfit = Credentials::new(certificate, key, set.certificate.as_bytes());
    assert!(matches!(unfit, Err(CredentialsError::Unfit(_))));
}

#[test]
fn a_key_that_is_issued_is_of_the_version_that_openssl_reads() {
    let set = Set::new();
    let now = SystemTime::now();
    let issued = set.authority.issue("a.example", now, now + HOUR).unwrap();
    // 48 bytes, 64 letters: with the public key there would be more.
    let lines: Vec<&str> = issued.key.lines().collect();
    assert_eq!(lines.len(), 3, "{}", lines.len());
    assert!(lines[1].starts_with("MC4CAQAwBQYDK2VwBCIEI"));
}

#[test]
fn a_key_is_vouched_for_by_its_own_certificate_of_the_right_authority_in_its_time() {
    let (set, other) = (Set::new(), Set::new());
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let own = set.credentials("left");
    let stranger = set.credentials("right");
    // The last 32 bytes of the key's part of a certificate, which precedes its extensions.
    let key = |credentials: &Credentials| -> [u8; 32] {
        let certificate = credentials.certificate();
        let head = [6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
        let at = certificate
            .windows(8)
            .position(|window| window == head)
            .unwrap()
            + 8;
        certificate[at..at + 32].try_into().unwrap()
    };
    let authority = set.certificate.as_bytes();
    let ask = |authority: &[u8], key: [u8; 32], at| vouched(authority, own.certificate(), &key, at);
    assert_eq!(ask(authority, key(&own), now), Ok("left".to_owned()));
    assert_eq!(ask(authority, key(&stranger), now), Err(Distrust::Name));
    assert_eq!(
        ask(authority, key(&own), now + 7200),
        Err(Distrust::Expired)
    );
    let foreign = other.certificate.as_bytes();
    assert_eq!(ask(foreign, key(&own), now), Err(Distrust::Stranger));
    assert_eq!(ask(b"none", key(&own), now), Err(Distrust::Unusable));
}
