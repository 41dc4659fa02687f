//! Flips a byte in what Holdfast writes on one store or on all, while the set is down: each start
//! heals or refuses with advice, nothing is lost, and no wrong byte is served where a right copy can
//! be told apart.
//!
//! HOLDFAST_SEED replays one seed; HOLDFAST_ROUNDS runs more rounds of it.

use super::place::{Place, text};
use super::sync;
use rustix::fs::{XattrFlags, getxattr, setxattr};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

const LABEL: &str = "trusted.holdfast";

/// What was synced: names of files and their content.
type Synced = BTreeMap<String, Vec<u8>>;

/// What is damaged, on one store or on every one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Damage {
    Header,
    Journal,
    DirtyLog,
    LabelOfFile,
    LabelOfDirectory,
    LabelOfRoot,
}

const DAMAGES: [Damage; 6] = [
    Damage::Journal,
    Damage::DirtyLog,
    Damage::LabelOfFile,
    Damage::Header,
    Damage::LabelOfDirectory,
    Damage::LabelOfRoot,
];

struct Attack {
    place: Place,
    rng: env::Rng,
    synced: Synced,
}

impl Attack {
    fn new(seed: u64) -> Attack {
        let mut attack = Attack {
            place: Place::new(),
            rng: env::Rng::new(seed),
            synced: Synced::new(),
        };
        attack.place.up();
        fs::create_dir(attack.place.path("mnt/dir")).expect("a directory");
        attack.change();
        attack
    }

    /// Writes some files, synced.
    fn change(&mut self) {
        for _ in 0..6 {
            let name = format!("dir/file-{}", self.rng.below(20));
            let mut content = vec![0; 1 + self.rng.index(30_000)];
            self.rng.fill(&mut content);
            let path = self.place.path("mnt").join(&name);
            let mut file = fs::File::create(&path).expect("a file");
            file.write_all(&content).expect("a write");
            sync(&path);
            self.synced.insert(name, content);
        }
    }

    /// Ends the process without a word.
    fn kill(&mut self) {
        self.place.signal(rustix::process::Signal::KILL);
        self.place.ended();
    }

    /// The files of the system directory of a store whose names begin so.
    fn system_files(&self, store: usize, begin: &str) -> Vec<PathBuf> {
        let dir = self.place.path(&self.place.stores[store]).join(".holdfast");
        let mut found: Vec<PathBuf> = fs::read_dir(dir)
            .expect("the system directory")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| {
                let name = path.file_name().and_then(|name| name.to_str());
                name.is_some_and(|name| name.starts_with(begin))
            })
            .collect();
        found.sort();
        found
    }

    fn flip_in(&mut self, bytes: &mut [u8]) {
        // Most of a segment is empty: where records are is of more interest.
        let used = bytes
            .iter()
            .rposition(|b| *b != 0)
            .map_or(1, |last| last + 1);
        bytes[self.rng.index(used)] ^= 1 << self.rng.below(8);
    }

    /// Flips a bit of a file: of all that is used of it, or of what says what it is.
    fn flip_file(&mut self, path: &Path, only_begin: bool) {
        let mut bytes = fs::read(path).expect("a system file");
        if !bytes.is_empty() {
            let end = if only_begin { 64 } else { bytes.len() };
            self.flip_in(&mut bytes[..end]);
            // In place, as a disk would do it.
            let mut file = fs::OpenOptions::new().write(true).open(path).expect("it");
            file.write_all(&bytes).expect("a write");
        }
    }

    fn flip_label(&mut self, copy: &Path) {
        let mut label = [0; 32];
        getxattr(copy, LABEL, &mut label).expect("a label");
        self.flip_in(&mut label);
        setxattr(copy, LABEL, &label, XattrFlags::empty()).expect("a label");
    }

    fn damage(&mut self, damage: Damage, store: usize, everywhere: bool) {
        let begin = match damage {
            Damage::Journal => "intent.",
            Damage::DirtyLog => "dirty-",
            _ => "store",
        };
        match damage {
            Damage::Header | Damage::Journal | Damage::DirtyLog => {
                for path in self.system_files(store, begin) {
                    self.flip_file(&path, everywhere);
                }
            }
            Damage::LabelOfFile => {
                let held = |name: &&String| self.place.holders(name).contains(&store);
                let names: Vec<String> = self.synced.keys().filter(held).cloned().collect();
                let name = &names[self.rng.index(names.len())];
                self.flip_label(&self.place.copy(store, name));
            }
            Damage::LabelOfDirectory => self.flip_label(&self.place.copy(store, "dir")),
            Damage::LabelOfRoot => self.flip_label(&self.place.copy(store, "")),
        }
    }

    /// Wrong bytes and missing files, as they are read through the mount.
    fn wrong(&self) -> Vec<String> {
        let wrong = |(name, content): (&String, &Vec<u8>)| match fs::read(
            self.place.path("mnt").join(name),
        ) {
            Ok(read) if read == *content => None,
            Ok(read) => Some(format!("{name}: {} bytes that are not its", read.len())),
            Err(error) => Some(format!("{name}: {error}")),
        };
        self.synced.iter().filter_map(wrong).collect()
    }

    /// Waits for redundancy; a repair gives back what a store lacks.
    fn heal(&self) {
        self.place.until("redundant", |status| status.redundant);
        let (code, said) = self.place.check();
        if code == Some(3) {
            assert!(said.contains("`holdfast repair` brings back"), "{said}");
            let (code, said) = self.place.of(&["repair"]);
            assert_eq!(code, Some(3), "{said}");
            assert!(said.contains("it gets them now"), "{said}");
            self.place.until("redundant", |status| status.redundant);
            let (code, said) = self.place.check();
            assert_eq!(code, Some(0), "{said}");
        } else {
            assert_eq!(code, Some(0), "{said}");
        }
    }

    /// One damage, on one store or, to logs and roots, on all. In logs it is then not the last
    /// record, since that looks, damaged in every log, like one whose write a crash has cut.
    fn round(&mut self, damage: Damage, everywhere: bool) {
        let store = self.rng.index(3);
        let away = (store + 1 + self.rng.index(2)) % 3;
        if damage == Damage::DirtyLog {
            // There is one only while a store is away.
            let detached = self.place.run(&["detach", &away.to_string()]);
            assert!(detached.status.success(), "{}", text(&detached.stderr));
            self.change();
            let has_log = |attack: &Attack| !attack.system_files(store, "dirty-").is_empty();
            let began = std::time::Instant::now();
            while !has_log(self) {
                assert!(began.elapsed() < super::place::LIMIT, "no dirty log");
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        self.change();
        self.kill();
        let all = match damage {
            Damage::Journal | Damage::DirtyLog | Damage::LabelOfRoot => everywhere,
            Damage::Header | Damage::LabelOfFile | Damage::LabelOfDirectory => false,
        };
        for target in if all { 0..3 } else { store..store + 1 } {
            self.damage(damage, target, all);
        }
        match self.place.try_up() {
            Ok(()) => assert_ne!(damage, Damage::Header, "a damaged header was taken"),
            Err((code, said)) => {
                assert_eq!(damage, Damage::Header, "{said}");
                assert_eq!(code, Some(13), "{said}");
                assert!(
                    said.contains(&format!("/{}", self.place.stores[store])),
                    "{said}"
                );
                assert!(said.contains("next: "), "{said}");
                self.follow_advice(store);
            }
        }
        let wrong = self.wrong();
        assert!(wrong.is_empty(), "{wrong:?}\n{}", self.place.log());
        self.heal();
        let wrong = self.wrong();
        assert!(wrong.is_empty(), "{wrong:?}\n{}", self.place.log());
    }

    /// Starts without a store, and gives an empty one in its place.
    fn follow_advice(&mut self, store: usize) {
        let damaged = self.place.stores[store].clone();
        let aside = self.place.path("damaged");
        fs::rename(self.place.path(&damaged), &aside).expect("moved away");
        fs::create_dir(self.place.path(&damaged)).expect("an empty directory");
        self.place.up();
        let attached = self.place.run(&["attach", &damaged]);
        assert!(attached.status.success(), "{}", text(&attached.stderr));
        fs::remove_dir_all(aside).expect("what is not needed any more");
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn a_flipped_byte_is_healed_or_refused_and_nothing_is_lost() {
    let seed = number("HOLDFAST_SEED").unwrap_or(20_261_121);
    println!("HOLDFAST_SEED={seed}");
    let mut attack = Attack::new(seed);
    for round in 0..number("HOLDFAST_ROUNDS").unwrap_or(6) {
        let damage = DAMAGES[round as usize % DAMAGES.len()];
        let everywhere = attack.rng.chance(1, 2);
        println!("round {round}: {damage:?}, everywhere: {everywhere}");
        attack.round(damage, everywhere);
    }
    attack.place.down();
}

#[test]
fn stores_that_have_all_lost_their_headers_are_not_taken_for_new_ones() {
    let mut attack = Attack::new(2);
    attack.place.down();
    let headers: Vec<PathBuf> = (0..3)
        .flat_map(|store| attack.system_files(store, "store"))
        .collect();
    let kept: Vec<Vec<u8>> = headers.iter().map(|h| fs::read(h).expect("it")).collect();
    for header in &headers {
        fs::remove_file(header).expect("a header");
    }
    let (code, said) = attack.place.try_up().expect_err("no header");
    assert_eq!(code, Some(11), "{said}");
    assert!(said.contains("its data directory is not empty"), "{said}");
    for (header, bytes) in headers.iter().zip(kept) {
        fs::write(header, bytes).expect("a header");
    }
    attack.place.up();
    assert_eq!(attack.wrong(), Vec::<String>::new());
    attack.heal();
    attack.place.down();
}

/// The attack sees a wrong byte that is served: one planted in every copy of a file.
#[test]
fn a_wrong_byte_in_every_copy_is_seen_by_the_attack() {
    let mut attack = Attack::new(1);
    attack.kill();
    let (name, content) = attack.synced.first_key_value().expect("a file");
    let (name, mut content) = (name.clone(), content.clone());
    content[0] ^= 1;
    for store in attack.place.holders(&name) {
        let copy = attack.place.copy(store, &name);
        fs::write(copy, &content).expect("a write in place");
    }
    attack.place.up();
    let wrong = attack.wrong();
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].starts_with(&name), "{wrong:?}");
    attack.place.down();
}
