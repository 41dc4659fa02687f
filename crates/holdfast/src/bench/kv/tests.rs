//! The check of contents finds what a server has wrong: faults are planted in a real one.

use super::content::Content;
use super::driver::{Driver, Key, Until};
use super::keys::Keys;
use super::resp;
use super::workload::{Fill, Letter, Shape, Workload, Ycsb, name};
use kv::server::{Handle, Options, Server};
use kv::{Config, Policy};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

const KEYS: u64 = 200;

struct Served {
    _home: tempfile::TempDir,
    handle: Handle,
    thread: Option<JoinHandle<()>>,
    address: SocketAddr,
}

impl Served {
    fn start() -> Served {
        let home = tempfile::tempdir().unwrap();
        let server = Server::bind(&Options {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))],
            tls: None,
            unix_socket: None,
            directories: vec![home.path().to_str().unwrap().to_owned()],
            policy: Policy::EverySecond,
            config: Config::default(),
            log: ::vlog::Options::default(),
        })
        .unwrap();
        let address = *server.addresses()[0].as_ref().unwrap();
        let handle = server.handle();
        let (ready, served) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            server.run(|_| ready.send(()).unwrap()).unwrap();
        });
        served.recv().unwrap();
        Served {
            _home: home,
            handle,
            thread: Some(thread),
            address,
        }
    }

    /// A request of somebody whom the driver does not know.
    fn meddle(&self, arguments: &[&[u8]]) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let mut request = Vec::new();
        resp::push(&mut request, arguments);
        stream.write_all(&request).unwrap();
        assert!(stream.read(&mut [0; 100]).unwrap() > 0);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.handle.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

fn filled(served: &Served, bytes: usize, shape: Shape) -> Driver {
    let mut driver = Driver::connect(served.address, 4, Content::new(bytes)).unwrap();
    driver.pipeline = 8;
    let mut fill = Fill {
        next: 0,
        count: KEYS,
        shape,
    };
    driver.run(&mut fill, Until::Dry, 1).unwrap();
    driver
}

fn complaint(driver: &Driver, served: &Served, key: Key) -> String {
    driver.verify(served.address, key).unwrap_err().to_string()
}

#[test]
fn every_workload_runs_and_leaves_what_it_wrote() {
    let served = Served::start();
    let mut driver = filled(&served, 100, Shape::Text);
    let mut index = Fill {
        next: 0,
        count: KEYS,
        shape: Shape::Indexed,
    };
    driver.run(&mut index, Until::Dry, 1).unwrap();
    let loads = [
        (Letter::A, Keys::zipfian(KEYS)),
        (Letter::B, Keys::uniform(KEYS)),
        (Letter::C, Keys::zipfian(KEYS)),
        (Letter::D, Keys::latest(KEYS)),
        (Letter::E, Keys::zipfian(KEYS)),
        (Letter::F, Keys::zipfian(KEYS)),
        (Letter::Updates, Keys::uniform(KEYS)),
    ];
    for (letter, keys) in loads {
        let mut load = Ycsb::new(letter, keys, 1);
        let until = Until::After(Duration::from_millis(20));
        let outcome = driver.run(&mut load, until, 1).unwrap();
        assert!(outcome.operations > 0, "{letter:?}");
        assert!(outcome.quantile(0, 1.0) >= outcome.quantile(0, 0.5));
    }
    assert!(driver.verify(served.address, Key::Text).unwrap() > KEYS);
}

#[test]
fn a_value_of_a_hash_is_compared() {
    let served = Served::start();
    let driver = filled(&served, 25, Shape::Hash(4));
    assert_eq!(driver.verify(served.address, Key::Field(3)).unwrap(), KEYS);
    served.meddle(&[b"HDEL", &name(17), b"f3"]);
    assert!(complaint(&driver, &served, Key::Field(3)).contains("key 17"));
}

#[test]
fn planted_faults_are_found() {
    let served = Served::start();
    let mut driver = filled(&served, 100, Shape::Text);
    let value = |version: u32| {
        let mut value = Vec::new();
        driver.content.push(&mut value, 9, version);
        value
    };
    let (stale, mut damaged) = (value(1), value(2));
    damaged[60] ^= 1;
    let mut one = Rewrite(Some(9));
    driver.run(&mut one, Until::Dry, 1).unwrap();
    driver.verify(served.address, Key::Text).unwrap();
    // A write that was lost, one byte that is wrong, another key's value, and no value at all.
    served.meddle(&[b"SET", &name(9), &stale]);
    assert!(complaint(&driver, &served, Key::Text).contains("key 9"));
    served.meddle(&[b"SET", &name(9), &damaged]);
    assert!(complaint(&driver, &served, Key::Text).contains("key 9"));
    served.meddle(&[b"COPY", &name(8), &name(9), b"REPLACE"]);
    assert!(complaint(&driver, &served, Key::Text).contains("key 9"));
    let mut reads = Ycsb::new(Letter::C, Keys::uniform(KEYS), 1);
    let until = Until::After(Duration::from_secs(60));
    let error = driver.run(&mut reads, until, 1).unwrap_err();
    assert!(error.to_string().contains("key 9 was answered"), "{error}");
    served.meddle(&[b"DEL", &name(9)]);
    assert!(complaint(&driver, &served, Key::Text).contains("has none"));
}

/// Writes one key once more.
struct Rewrite(Option<u64>);

impl Workload for Rewrite {
    fn next(
        &mut self,
        content: &Content,
        versions: &mut super::content::Versions,
        out: &mut Vec<u8>,
        expect: &mut dyn FnMut(super::workload::Expected),
    ) -> bool {
        let Some(key) = self.0.take() else {
            return false;
        };
        let mut value = Vec::new();
        content.push(&mut value, key, versions.issue(key));
        resp::push(out, &[b"SET", &name(key), &value]);
        expect(super::workload::Expected::Written { key, ends: true });
        true
    }
}
