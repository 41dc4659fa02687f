//! RDB files: what a save has of entries that change meanwhile, what an import makes of a file.

use super::{ask, engine, send};
use crate::rdb::{ImportError, import};
use crate::{Config, Engine, LoadError, Policy, Saving, Token, load};
use env::Rng;
use env::sim::World;
use env::sim::crash::{Failure, Notes, Options as Look, Report, search};
use std::collections::BTreeMap;
use std::path::Path;

/// An engine without a log that saves into a directory.
fn saving(home: &Path) -> (Engine, Token) {
    let (mut engine, client) = engine();
    engine.config.directory = Some(home.to_str().unwrap().to_owned());
    (engine, client)
}

/// Does a save to its end; waits for the disk.
fn finish(engine: &mut Engine) {
    while engine.save_slice() != Saving::No {
        std::thread::yield_now();
    }
}

fn directories(home: &Path) -> impl Fn() -> vlog::Result<Vec<vlog::Directory>> + use<> {
    let path = home.to_str().unwrap().to_owned();
    move || Ok(vec![vlog::Directory::open(&path)?])
}

fn log() -> vlog::Options {
    vlog::Options {
        threads: false,
        ..vlog::Options::default()
    }
}

fn import_into(home: &Path, bytes: &[u8]) -> Result<crate::rdb::Counted, ImportError> {
    let config = Config::default();
    let now_ms = 1_700_000_000_000;
    import(
        bytes,
        directories(home),
        log(),
        &config,
        now_ms,
        &mut |_| {},
    )
}

/// What a load of a directory finds.
fn loaded(home: &Path) -> Result<String, LoadError> {
    let config = Config::default();
    let seen = Default::default();
    let loaded = load(directories(home), log(), Policy::No, &config, &seen)?;
    let mut engine = Engine::new(config, Rng::new(1));
    engine.serve(loaded);
    let contents = engine.contents();
    engine.close().unwrap();
    Ok(contents)
}

/// What an RDB file has, by importing it.
fn contents(bytes: &[u8]) -> String {
    let home = tempfile::tempdir().unwrap();
    import_into(home.path(), bytes).unwrap();
    loaded(home.path()).unwrap()
}

fn change(rng: &mut Rng) -> String {
    let key = rng.below(2000);
    match rng.below(16) {
        0..4 => format!("SET k{key} {}", rng.below(1000)),
        4 => format!("DEL k{key} h{key}"),
        5..7 => format!(
            "HSET h{key} f{} {}",
            rng.below(9),
            "x".repeat(rng.index(200))
        ),
        7 => format!("RPUSH l{key} {}", rng.below(1000)),
        8 => format!("LPOP l{key}"),
        9 => format!("PEXPIREAT k{key} {}", 1_800_000_000_000u64 + key),
        10 => format!("RENAME k{key} k{}", rng.below(2000)),
        11 => format!("XADD x{key} * a b"),
        12 => format!("SELECT {}", rng.below(3)),
        13 => format!("INCRBY k{key} 5"),
        14 => format!("SETRANGE k{key} 3 ab"),
        _ => format!("ZADD z{key} 1 m{}", rng.below(5)),
    }
}

/// Loads a library with a function of the same name, which answers a number.
fn library(name: &str, number: u32) -> String {
    format!(
        "FUNCTION LOAD REPLACE \"#!lua name={name}\\nredis.register_function('{name}',function() \
         return {number} end)\""
    )
}

/// Whether a save has all entries as they were when it began, while commands change them.
fn is_of_one_moment(seed: u64, forgets: bool) -> bool {
    let home = tempfile::tempdir().unwrap();
    let (mut engine, client) = saving(home.path());
    engine.forgets = forgets;
    let mut rng = Rng::new(seed);
    for _ in 0..6000 {
        send(&mut engine, client, &change(&mut rng));
    }
    send(&mut engine, client, &library("one", 1));
    engine.session_mut(client).unwrap().reply.clear();
    let before = engine.contents();
    assert_eq!(
        ask(&mut engine, client, "BGSAVE"),
        "+Background saving started"
    );
    assert!(ask(&mut engine, client, "BGSAVE").starts_with("-ERR Background save"));
    let (mut slices, mut ran) = (0, 0);
    while engine.save_slice() != Saving::No {
        slices += 1;
        for _ in 0..rng.below(40) {
            send(&mut engine, client, &change(&mut rng));
            ran += 1;
        }
        if slices == 1 {
            send(&mut engine, client, &library("one", 2));
            send(&mut engine, client, &library("two", 2));
        }
        if slices == 4 && rng.chance(1, 3) {
            send(&mut engine, client, "FLUSHALL");
        }
        if slices == 2 && rng.chance(1, 3) {
            send(&mut engine, client, "SWAPDB 0 1");
        }
    }
    assert!(ran > 0);
    assert_ne!(engine.contents(), before, "something was changed");
    contents(&std::fs::read(home.path().join("dump.rdb")).unwrap()) == before
}

#[test]
fn a_save_has_all_entries_as_they_were_at_its_beginning() {
    for seed in 0..4 {
        assert!(is_of_one_moment(seed, false), "seed {seed}");
    }
}

#[test]
fn a_save_that_does_not_keep_what_changes_is_found() {
    assert!(!is_of_one_moment(1, true));
}

#[test]
fn a_save_is_told_of_and_a_failed_one_too() {
    let home = tempfile::tempdir().unwrap();
    let (mut engine, client) = saving(home.path());
    let journal = tempfile::tempdir().unwrap();
    let config = engine.config.clone();
    let seen = Default::default();
    let with_log = load(
        directories(journal.path()),
        log(),
        Policy::No,
        &config,
        &seen,
    )
    .unwrap();
    engine.serve(with_log);
    let persistence = |engine: &mut Engine| {
        let text = ask(engine, client, "INFO persistence");
        let lines = text.split(' ').filter_map(|line| line.split_once(':'));
        let lines = lines.map(|(name, value)| (name.to_owned(), value.to_owned()));
        lines.collect::<BTreeMap<String, String>>()
    };
    send(&mut engine, client, "SET k v");
    engine.session_mut(client).unwrap().reply.clear();
    let before = persistence(&mut engine);
    assert_eq!(before["rdb_changes_since_last_save"], "1");
    assert_eq!(
        ask(&mut engine, client, "BGSAVE"),
        "+Background saving started"
    );
    assert_eq!(persistence(&mut engine)["rdb_bgsave_in_progress"], "1");
    finish(&mut engine);
    let after = persistence(&mut engine);
    assert_eq!(after["rdb_bgsave_in_progress"], "0");
    assert_eq!(after["rdb_changes_since_last_save"], "0");
    assert_eq!(after["rdb_saves"], "1");
    assert_eq!(ask(&mut engine, client, "LASTSAVE"), ":1700000000");
    for bad in ["", "a/b", "../x", "kv.manifest", ".x"] {
        let line = format!("CONFIG SET dbfilename \"{bad}\"");
        assert!(ask(&mut engine, client, &line).starts_with("-ERR"), "{bad}");
    }
    assert_eq!(
        ask(&mut engine, client, "CONFIG SET dbfilename other.rdb"),
        "+OK"
    );
    assert_eq!(ask(&mut engine, client, "SAVE"), "+OK");
    assert!(home.path().join("other.rdb").exists());
    engine.config.directory = Some(home.path().join("none").to_str().unwrap().to_owned());
    assert!(ask(&mut engine, client, "SAVE").starts_with("-ERR the RDB file"));
    let left: Vec<_> = std::fs::read_dir(home.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

/// A file with some keys.
fn file() -> Vec<u8> {
    let home = tempfile::tempdir().unwrap();
    let (mut engine, client) = saving(home.path());
    for number in 0..600 {
        send(&mut engine, client, &format!("SET k{number} {number}"));
    }
    send(&mut engine, client, "SAVE");
    std::fs::read(home.path().join("dump.rdb")).unwrap()
}

#[test]
fn an_import_makes_a_whole_database_or_one_that_is_not_served() {
    let whole = file();
    let home = tempfile::tempdir().unwrap();
    let counted = import_into(home.path(), &whole).unwrap();
    assert_eq!((counted.keys, counted.by_type["string"]), (600, 600));
    assert_eq!(loaded(home.path()).unwrap().lines().count(), 600);
    let used = import_into(home.path(), &whole).unwrap_err();
    assert!(
        matches!(used, ImportError::Load(LoadError::Used { .. })),
        "{used}"
    );
    assert_eq!(loaded(home.path()).unwrap().lines().count(), 600);
    for cut in [20, whole.len() / 2, whole.len() - 1] {
        let home = tempfile::tempdir().unwrap();
        let failed = import_into(home.path(), &whole[..cut]).unwrap_err();
        assert!(matches!(failed, ImportError::File(_)), "{failed}");
        let left = std::fs::read_dir(home.path()).unwrap().count();
        assert_eq!(left, 0, "{cut}");
    }
}

/// Cuts an import at every point. A marker that is not there, as with the planted fault, lets a part
/// pass for a whole.
fn cut_imports(seed: u64, is_marked: bool) -> Result<Report, Failure> {
    let bytes = file();
    let directory = |world: &World| vlog::Directory {
        dir: world.dir("one"),
        path: "/one".to_owned(),
    };
    let mut look = Look::new(seed);
    look.cuts_max = 150;
    let work = |world: &World, notes: &Notes<()>| {
        let log = vlog::Options {
            pending_bytes_max: 4096,
            ..log()
        };
        let config = Config::default();
        let directories = || {
            if !is_marked {
                // It is not there: nothing was cut short.
                let _ = directory(world).dir.remove(crate::marker::MARKER_NAME);
            }
            Ok(vec![directory(world)])
        };
        let now_ms = 1_700_000_000_000;
        import(&bytes[..], directories, log, &config, now_ms, &mut |_| {}).unwrap();
        notes.note(());
    };
    let check = |world: &World, events: &[()]| {
        let config = Config::default();
        let directories = || Ok(vec![directory(world)]);
        let seen = Default::default();
        let keys = match load(directories, log(), Policy::No, &config, &seen) {
            Ok(loaded) => loaded.entries(),
            Err(LoadError::Importing { .. }) if events.is_empty() => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        match (keys, events.is_empty()) {
            (600, _) | (0, true) => Ok(()),
            _ => Err(format!("{keys} of 600 keys")),
        }
    };
    search(&look, work, check)
}

#[test]
fn at_every_crash_of_an_import_there_is_all_or_nothing_or_a_part_that_is_not_served() {
    let report = cut_imports(1, true).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(
        report.images > 100 || std::env::var(env::sim::crash::SEED_VARIABLE).is_ok(),
        "{}",
        report.images
    );
}

#[test]
fn a_part_of_an_import_that_nothing_marks_is_found() {
    let found = cut_imports(1, false).unwrap_err().to_string();
    assert!(found.contains("of 600 keys"), "{found}");
}

#[test]
fn a_file_with_a_key_twice_or_of_a_database_that_is_not_there_is_refused() {
    let value = values::StringValue::new(b"v").into();
    let mut twice = values::rdb::Writer::new(Vec::new()).unwrap();
    twice.key(b"k", &value, None).unwrap();
    twice.key(b"k", &value, None).unwrap();
    let mut high = values::rdb::Writer::new(Vec::new()).unwrap();
    high.select(16).unwrap();
    high.key(b"k", &value, None).unwrap();
    for (bytes, words) in [
        (twice.finish().unwrap(), "the key \"k\" is there twice"),
        (high.finish().unwrap(), "database 16"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let refused = import_into(home.path(), &bytes).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
}

#[test]
fn a_database_whose_log_is_gone_is_not_made_anew() {
    let home = tempfile::tempdir().unwrap();
    import_into(home.path(), &file()).unwrap();
    for name in std::fs::read_dir(home.path()).unwrap() {
        let name = name.unwrap();
        if name.file_name() != crate::marker::MARKER_NAME {
            std::fs::remove_file(name.path()).unwrap();
        }
    }
    let refused = loaded(home.path()).unwrap_err();
    assert!(matches!(refused, LoadError::Lost { .. }), "{refused}");
    std::fs::remove_file(home.path().join(crate::marker::MARKER_NAME)).unwrap();
    assert_eq!(loaded(home.path()).unwrap(), "");
}
