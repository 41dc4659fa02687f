//! Making and opening a log.

use crate::VlogId;
use crate::error::{Result, VlogError};
use crate::manifest::Manifest;
use crate::options::Options;
use crate::place::{Directory, Places, VERSION};
use crate::recovery::{Sink, read, recover, replay};
use crate::shared::Shared;
use crate::store::Store;
use crate::table::Table;
use codec::{Identity, kind, seal_object};
use env::errno::Errno;
use env::{Lock, Open};
use std::collections::BTreeMap;
use zerocopy::IntoBytes as _;
use zerocopy::little_endian::U32;

/// Keeps other processes away.
fn lock(places: &Places) -> Result<Vec<Lock>> {
    let file = places.plain("lock");
    let lock = |index| {
        let lock = places.dir(index)?.lock(&file);
        lock.map_err(|errno| {
            let file = places.shown(index, &file);
            match errno {
                Errno::AGAIN => VlogError::Busy { file },
                errno => VlogError::io("locking", &file)(errno),
            }
        })
    };
    (0..places.count()).map(lock).collect()
}

/// Makes an empty log, durably. One that was cut short by a crash may be made again with the same id.
pub(crate) fn create(name: &str, directories: Vec<Directory>, log: u128) -> Result<()> {
    let places = Places::new(name, directories)?;
    let _locks = lock(&places)?;
    let label = places.plain("directory");
    let exists = |index, file: &str| VlogError::Exists {
        file: places.shown(index, file),
    };
    for index in 0..places.count() {
        let dir = places.dir(index)?;
        let shown = places.shown(index, name);
        let names = dir.list().map_err(VlogError::io("listing", &shown))?;
        let taken = names.iter().find(|file| {
            **file == places.plain("manifest") || places.parse_segment(file).is_some()
        });
        if let Some(file) = taken {
            return Err(exists(index, file));
        }
        if let Some(bytes) = places.read(index, &label)? {
            let ours = places.unseal(index, &label, &bytes, kind::VLOG_DIRECTORY, Some(log));
            ours.map_err(|_| exists(index, &label))?;
        }
    }
    for index in 0..places.count() {
        let identity = Identity {
            set: log.to_le_bytes(),
            object: index.into(),
            generation: 0,
        };
        let payload = [U32::new(places.count()), U32::ZERO];
        let bytes = seal_object(kind::VLOG_DIRECTORY, VERSION, &identity, payload.as_bytes());
        places.replace(index, &label, &bytes)?;
    }
    let manifest = Manifest {
        next_number: 1,
        directories: places.count(),
        ..Manifest::default()
    };
    let store = Store::new(places, log, Manifest::default(), 0, 0);
    let mut books = store.books.lock();
    store.write(&mut books, manifest)
}

/// The id in the first directory's own file, where neither a manifest nor a segment is beside it.
pub(crate) fn unfinished(name: &str, directories: Vec<Directory>) -> Result<Option<VlogId>> {
    let places = Places::new(name, directories)?;
    let shown = places.shown(0, name);
    let names = places.dir(0)?.list();
    let names = names.map_err(VlogError::io("listing", &shown))?;
    let is_log =
        |file: &String| *file == places.plain("manifest") || places.parse_segment(file).is_some();
    let label = places.plain("directory");
    let Some(bytes) = places.read(0, &label)? else {
        return Ok(None);
    };
    let object = places.unseal(0, &label, &bytes, kind::VLOG_DIRECTORY, None)?;
    let first = object.identity.object == 0;
    let unfinished = first && !names.iter().any(is_log);
    Ok(unfinished.then(|| VlogId(u128::from_le_bytes(object.identity.set))))
}

/// Opens a log and hands out its live records. Nothing is changed where that fails before all of it
/// was read.
pub(crate) fn open(
    name: &str,
    directories: Vec<Directory>,
    options: Options,
    sink: &Sink<'_>,
    tear_groups: bool,
) -> Result<(Shared, Vec<Lock>)> {
    options.check()?;
    let places = Places::new(name, directories)?;
    let locks = lock(&places)?;
    let read = read(&places)?;
    let mut recovered = recover(&places, &read, tear_groups)?;
    let table = Table::default();
    let mut slots = BTreeMap::new();
    let sets: Vec<_> = recovered
        .sets
        .iter()
        .map(|(number, set)| (*number, set.clone()))
        .collect();
    for (number, set) in sets {
        slots.insert(number, table.add(number, None, set)?.slot);
    }
    if let Some(expect) = &options.expect {
        expect(
            recovered
                .sets
                .values()
                .map(|set| u64::from(set.live()))
                .sum(),
        );
    }
    let threads = options.recovery_threads;
    let present = replay(&places, read.log, &recovered, &slots, threads, sink)?;
    // What was handed out once has to be there the next time too.
    for (number, entry) in &recovered.unsynced {
        let file = places.shown(entry.directory, &places.segment(*number));
        let disk = places.open(entry.directory, *number, Open::Write)?;
        disk.sync().map_err(VlogError::io("syncing", &file))?;
    }
    recovered.manifest.opening += 1;
    recovered.manifest.group_floor = 1;
    let opening = recovered.manifest.opening;
    let store = Store::new(
        places,
        read.log,
        read.manifest,
        read.generation,
        read.validity_generation,
    );
    let mut books = store.books.lock();
    store.write(&mut books, recovered.manifest)?;
    books.present = present;
    drop(books);
    remove_others(&store)?;
    Ok((Shared::new(options, store, table, opening), locks))
}

/// Removes segment files that the manifest does not name, so that their numbers are free.
fn remove_others(store: &Store) -> Result<()> {
    let books = store.books.lock();
    let places = &store.places;
    for index in 0..places.count() {
        let dir = places.dir(index)?;
        let shown = places.shown(index, "");
        let names = dir.list().map_err(VlogError::io("listing", &shown))?;
        let mut removed = false;
        for number in names.iter().filter_map(|file| places.parse_segment(file)) {
            let entry = books.manifest.files.get(&number);
            if entry.is_none_or(|entry| entry.directory != index) {
                places.remove(index, number)?;
                removed = true;
            }
        }
        if removed {
            dir.sync().map_err(VlogError::io("syncing", &shown))?;
        }
    }
    Ok(())
}
