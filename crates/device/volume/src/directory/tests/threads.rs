//! Many threads at once, and a disk whose syncs do not end.

use super::model::{ID, ME, OPTIONS, create, open};
use crate::Volume;
use crate::directory::{Tree, check};
use env::sim::World;
use env::{Disk, Rng};
use mount::opens::{Handle, Opens};
use mount::{Errno, Ino, Layer, NewObject, RenameFlags};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

const BYTES: u64 = 6 << 20;

#[test]
fn threads_in_the_same_directories_leave_a_whole_tree() {
    let world = World::new(1);
    let tree = create(&world, BYTES);
    let dirs: Vec<Ino> = (0..2)
        .map(|number| {
            let name = format!("d{number}");
            tree.make(&ME, Ino::ROOT, name.as_ref(), NewObject::Dir, 0o755)
                .unwrap()
                .0
        })
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..5_u64 {
            let (tree, dirs) = (&tree, &dirs);
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                for round in 0..150_u64 {
                    let name = |rng: &mut Rng| format!("{}", rng.below(6));
                    let (one, other) = (name(&mut rng), name(&mut rng));
                    let dir = dirs[rng.index(2)];
                    let to = dirs[rng.index(2)];
                    // Others do the same at the same time, so most may fail, each in its way.
                    let outcome = match rng.below(7) {
                        0 | 1 => tree
                            .make(&ME, dir, one.as_ref(), NewObject::File, 0o600)
                            .map(drop),
                        2 => tree.unlink(dir, one.as_ref()),
                        3 => {
                            let flags = RenameFlags::empty();
                            tree.rename(dir, one.as_ref(), to, other.as_ref(), flags)
                        }
                        4 => (tree.lookup(dir, one.as_ref()))
                            .and_then(|(ino, _)| tree.link(ino, to, other.as_ref()))
                            .map(drop),
                        5 => tree.lookup(dir, one.as_ref()).and_then(|(ino, _)| {
                            let handle = Handle(thread << 32 | round);
                            tree.open(ino, handle, true)?;
                            let written = tree.write(ino, rng.below(9000), &[thread as u8; 3000]);
                            tree.release(ino, handle);
                            written
                        }),
                        _ => tree.sync(dir, false),
                    };
                    let usual = [Errno::NOENT, Errno::EXIST, Errno::STALE];
                    assert!(
                        outcome.is_ok() || usual.contains(&outcome.unwrap_err()),
                        "{outcome:?}"
                    );
                }
            });
        }
    });
    assert_eq!(check(tree.volume(), &[]).unwrap().unwrap().problems, []);
    let before = super::model::look(&tree).unwrap();
    tree.settle().unwrap();
    drop(tree);
    let tree = open(&world, BYTES).unwrap();
    assert_eq!(super::model::look(&tree).unwrap(), before);
}

/// A disk whose syncs wait while the gate is closed.
struct Gated {
    disk: Arc<dyn Disk>,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    /// Whether it is closed, and how many wait.
    state: Mutex<(bool, u32)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock();
        state.1 += 1;
        self.changed.notify_all();
        while state.0 {
            self.changed.wait(&mut state);
        }
        state.1 -= 1;
    }

    fn set(&self, closed: bool) {
        self.state.lock().0 = closed;
        self.changed.notify_all();
    }

    fn wait_for_somebody(&self) {
        let mut state = self.state.lock();
        while state.1 == 0 {
            self.changed.wait(&mut state);
        }
    }
}

impl Disk for Gated {
    fn len(&self) -> env::Result<u64> {
        self.disk.len()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> env::Result<()> {
        self.disk.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> env::Result<()> {
        self.disk.write_at(offset, data)
    }
    fn sync(&self) -> env::Result<()> {
        self.gate.pass();
        self.disk.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> env::Result<()> {
        self.disk.discard(offset, length)
    }
}

#[test]
fn nobody_waits_for_a_sync_but_who_asked_for_it() {
    let world = World::new(1);
    let gate = Arc::<Gate>::default();
    let disk: Arc<dyn Disk> = Arc::new(Gated {
        disk: world.disk("disk", BYTES),
        gate: gate.clone(),
    });
    let tree = Tree::create(Volume::create(vec![disk], ID, OPTIONS).unwrap()).unwrap();
    let make = |name: &str| tree.make(&ME, Ino::ROOT, name.as_ref(), NewObject::File, 0o600);
    let (a, _) = make("a").unwrap();
    tree.write(a, 0, &[1; 10_000]).unwrap();
    gate.set(true);
    std::thread::scope(|scope| {
        let syncing = scope.spawn(|| tree.sync(a, false));
        gate.wait_for_somebody();
        // Were one of these to wait for the sync, this test would not end.
        let mut content = vec![0; 10_000];
        assert_eq!(tree.read(a, 0, &mut content), Ok(10_000));
        assert_eq!(tree.lookup(Ino::ROOT, "a".as_ref()).unwrap().0, a);
        tree.write(a, 5000, &[2; 100]).unwrap();
        let (b, _) = make("b").unwrap();
        tree.write(b, 0, b"beside").unwrap();
        tree.rename(
            Ino::ROOT,
            "b".as_ref(),
            Ino::ROOT,
            "c".as_ref(),
            RenameFlags::empty(),
        )
        .unwrap();
        assert_eq!(tree.list(Ino::ROOT).unwrap().len(), 2);
        assert!(!syncing.is_finished());
        gate.set(false);
        syncing.join().unwrap().unwrap();
    });
}
