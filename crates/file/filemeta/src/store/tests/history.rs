//! Random requests on a few files, beside a plain map of what must come out.

use crate::{MetaError, Options, Places, Request, Result, Store, StoreId, SystemName, Tag};
use env::handle::Handle;
use env::sim::World;
use env::{Dir, Rng};
use std::collections::BTreeMap;
use std::ffi::CStr;

pub(super) const ID: StoreId = StoreId(0x5707e);
pub(super) const ATTRIBUTE: &CStr = c"trusted.hfm";

/// Small, so that segments roll and checkpoints happen.
pub(super) const OPTIONS: Options = Options {
    segment_bytes: 32 << 10,
    journal_bytes: 48 << 10,
};

/// Files that get metadata.
pub(super) const FILES: usize = 4;

pub(super) fn places(world: &World) -> Places {
    Places {
        files: world.files(),
        objects: world.dir("objects"),
        journal: world.dir("journal"),
    }
}

/// Makes the files, durably.
pub(super) fn owners(world: &World) -> Vec<Handle> {
    let dir = world.dir("user");
    let name = |index| format!("f{index}");
    for index in 0..FILES {
        if dir.handle(&name(index)).is_err() {
            dir.replace(&name(index), b"").unwrap();
        }
    }
    let handles = (0..FILES).map(|index| dir.handle(&name(index)).unwrap());
    handles.collect()
}

pub(super) fn tag(number: u8) -> Tag {
    Tag::new(number).unwrap()
}

/// What a tag stands for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    Value,
    Linked,
    Shared,
}

/// Everything that a store should hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Model {
    pub(super) tags: BTreeMap<(usize, u8), (Kind, Vec<u8>)>,
    pub(super) system: BTreeMap<String, Vec<u8>>,
    /// The last note.
    pub(super) note: Option<Vec<u8>>,
}

/// One change, to the store and to the model.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Value(usize, u8, Vec<u8>),
    Put(usize, u8, Vec<u8>),
    Patch(usize, u8, u64, Vec<u8>),
    Resize(usize, u8, u64),
    Share(usize, u8, Vec<u8>),
    Clear(usize, u8),
    Forget(usize),
    PutSystem(String, Vec<u8>),
    PatchSystem(String, u64, Vec<u8>),
    RemoveSystem(String),
    Note(Vec<u8>),
}

impl Step {
    /// Adds the change to a request.
    pub(super) fn ask(&self, request: &mut Request<'_>, owners: &[Handle]) -> Result<()> {
        let name = |name: &str| SystemName::new(name).unwrap();
        match self {
            Step::Value(file, number, bytes) => {
                request.set_value(&owners[*file], tag(*number), bytes);
            }
            Step::Put(file, number, bytes) => {
                request.put(&owners[*file], tag(*number), bytes)?;
            }
            Step::Patch(file, number, offset, bytes) => {
                request.patch(&owners[*file], tag(*number), *offset, bytes);
            }
            Step::Resize(file, number, length) => {
                request.resize(&owners[*file], tag(*number), *length);
            }
            Step::Share(file, number, bytes) => {
                request.share(&owners[*file], tag(*number), bytes);
            }
            Step::Clear(file, number) => {
                request.clear(&owners[*file], tag(*number));
            }
            Step::Forget(file) => {
                request.forget(&owners[*file]);
            }
            Step::PutSystem(system, bytes) => {
                request.put_system(&name(system), bytes);
            }
            Step::PatchSystem(system, offset, bytes) => {
                request.patch_system(&name(system), *offset, bytes);
            }
            Step::RemoveSystem(system) => {
                request.remove_system(&name(system));
            }
            Step::Note(bytes) => {
                request.note(9, bytes);
            }
        }
        Ok(())
    }
}

impl Model {
    /// Makes the change; `false` where the store must refuse it.
    pub(super) fn apply(&mut self, step: &Step) -> bool {
        let patched = |content: &mut Vec<u8>, offset: u64, bytes: &[u8]| {
            let range = offset as usize..offset as usize + bytes.len();
            content
                .get_mut(range)
                .map(|range| range.copy_from_slice(bytes))
                .is_some()
        };
        match step {
            Step::Value(file, number, bytes) => {
                let value = (Kind::Value, bytes.clone());
                self.tags.insert((*file, *number), value);
            }
            Step::Put(file, number, bytes) => {
                let value = (Kind::Linked, bytes.clone());
                self.tags.insert((*file, *number), value);
            }
            Step::Share(file, number, bytes) => {
                let value = (Kind::Shared, bytes.clone());
                self.tags.insert((*file, *number), value);
            }
            Step::Patch(file, number, offset, bytes) => {
                return match self.tags.get_mut(&(*file, *number)) {
                    Some((Kind::Linked, content)) => patched(content, *offset, bytes),
                    _ => false,
                };
            }
            Step::Resize(file, number, length) => match self.tags.get_mut(&(*file, *number)) {
                Some((Kind::Linked, content)) => content.resize(*length as usize, 0),
                _ => return false,
            },
            Step::Clear(file, number) => {
                self.tags.remove(&(*file, *number));
            }
            Step::Forget(file) => self.tags.retain(|(owner, _), _| owner != file),
            Step::PutSystem(name, bytes) => {
                self.system.insert(name.clone(), bytes.clone());
            }
            Step::PatchSystem(name, offset, bytes) => {
                return match self.system.get_mut(name) {
                    Some(content) => patched(content, *offset, bytes),
                    None => false,
                };
            }
            Step::RemoveSystem(name) => {
                self.system.remove(name);
            }
            Step::Note(bytes) => self.note = Some(bytes.clone()),
        }
        true
    }

    /// All that a store shows, as a model; without the note.
    pub(super) fn of_store(store: &Store, owners: &[Handle]) -> Result<Model> {
        let mut model = Model::default();
        for (index, owner) in owners.iter().enumerate() {
            for (number, entry) in store.entries(owner)?.entries {
                let kind = match entry {
                    crate::Entry::Value(_) => Kind::Value,
                    crate::Entry::Linked(_) => Kind::Linked,
                    crate::Entry::Shared { .. } => Kind::Shared,
                };
                let content = store.get(owner, number)?;
                model.tags.insert((index, number.get()), (kind, content));
            }
        }
        for name in SYSTEM {
            match store.system(&SystemName::new(name).unwrap()) {
                Ok(content) => {
                    model.system.insert(name.to_owned(), content);
                }
                Err(MetaError::NoSuchEntry) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(model)
    }
}

pub(super) const SYSTEM: [&str; 2] = ["quota", "index.1"];

/// A random change that the model in this state takes.
pub(super) fn random_step(rng: &mut Rng, model: &Model) -> Step {
    let file = rng.index(FILES);
    let number = rng.below(4) as u8;
    let bytes = |rng: &mut Rng, most: usize| {
        let mut bytes = vec![0; rng.index(most + 1)];
        rng.fill(&mut bytes);
        bytes
    };
    let system = SYSTEM[rng.index(SYSTEM.len())].to_owned();
    match rng.below(14) {
        0 => Step::Value(file, number, bytes(rng, 20)),
        1 | 2 => Step::Put(file, number, bytes(rng, 6000)),
        3 => {
            // Too long for the journal.
            let mut content = vec![rng.next_u64() as u8; 66_000 + rng.index(100)];
            content[65_999] = 1;
            Step::Put(file, number, content)
        }
        4..=6 => match model.tags.get(&(file, number)) {
            Some((Kind::Linked, content)) if !content.is_empty() => {
                let offset = rng.index(content.len());
                let mut bytes = bytes(rng, 40);
                bytes.truncate(content.len() - offset);
                Step::Patch(file, number, offset as u64, bytes)
            }
            _ => Step::Put(file, number, bytes(rng, 300)),
        },
        7 => match model.tags.get(&(file, number)) {
            Some((Kind::Linked, _)) => Step::Resize(file, number, rng.below(14_000)),
            _ => Step::Put(file, number, vec![1; 4092]),
        },
        // Few contents, so that they are shared.
        8 | 9 => Step::Share(file, number, vec![rng.below(3) as u8; 300]),
        10 => match rng.below(4) {
            0 => Step::Forget(file),
            _ => Step::Clear(file, number),
        },
        11 => Step::PutSystem(system, bytes(rng, 5000)),
        12 => match model.system.get(&system) {
            Some(content) if content.len() > 16 => {
                let offset = rng.index(content.len() - 16) as u64;
                Step::PatchSystem(system, offset, vec![rng.next_u64() as u8; 16])
            }
            _ => Step::RemoveSystem(system),
        },
        _ => Step::Note(bytes(rng, 30)),
    }
}
