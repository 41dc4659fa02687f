//! SEEK_DATA and SEEK_HOLE on a copy, held against a model that knows each page.

use super::*;
use crate::encoded::file::WholeFile;
use crate::store::StoreFile;
use env::errno::Errno;
use mount::{AllocateFlags, Attr, Result, SetAttr};

/// Which pages of a file have data.
#[derive(Clone, Debug)]
struct Pages(Vec<bool>);

impl Pages {
    fn length(&self) -> u64 {
        self.0.len() as u64 * CHUNK
    }

    /// lseek(2): the next page that has data, or has not; the end is a hole.
    fn next(&self, offset: u64, hole: bool) -> Result<u64> {
        if offset >= self.length() {
            return Err(Errno::NXIO);
        }
        let first = (offset / CHUNK) as usize;
        let found = (first..self.0.len()).find(|page| self.0[*page] != hole);
        match found {
            Some(page) => Ok(offset.max(page as u64 * CHUNK)),
            None if hole => Ok(self.length()),
            None => Err(Errno::NXIO),
        }
    }
}

/// A file of which only its holes matter.
impl StoreFile for Pages {
    fn read_at(&self, _offset: u64, _buffer: &mut [u8]) -> Result<usize> {
        Err(Errno::NOSYS)
    }
    fn write_at(&self, _offset: u64, _data: &[u8]) -> Result<()> {
        Err(Errno::NOSYS)
    }
    fn sync(&self, _data_only: bool) -> Result<()> {
        Err(Errno::NOSYS)
    }
    fn set_len(&self, _length: u64) -> Result<()> {
        Err(Errno::NOSYS)
    }
    fn set_attr(&self, _change: &SetAttr) -> Result<()> {
        Err(Errno::NOSYS)
    }
    fn attr(&self) -> Result<Attr> {
        Err(Errno::NOSYS)
    }
    fn allocate(&self, _offset: u64, _length: u64, _flags: AllocateFlags) -> Result<()> {
        Err(Errno::NOSYS)
    }
    fn seek(&self, offset: u64, hole: bool) -> Result<u64> {
        self.next(offset, hole)
    }
    fn forget_cache(&self, _offset: u64, _length: u64) {}
}

/// All answers of a file, beside those of the model.
fn compare(file: &WholeFile, model: &Pages, about: &str) {
    let end = model.length() + CHUNK;
    let steps = (0..=end).step_by(CHUNK as usize);
    for offset in steps.flat_map(|at| [at, at + 1, at + CHUNK - 1]) {
        for hole in [false, true] {
            let (found, expected) = (file.seek(offset, hole), model.next(offset, hole));
            assert_eq!(found, expected, "{about}: {offset}, hole {hole}, {model:?}");
        }
    }
}

#[test]
fn holes_are_those_of_the_content_whatever_the_copy_has_given_up() {
    for seed in 0..40 {
        let mut rng = env::Rng::new(seed);
        let scene = Scene::new(seed);
        let bare = |rng: &mut env::Rng| Pages((0..CHUNKS).map(|_| rng.below(2) == 0).collect());
        let (home, other) = (bare(&mut rng), bare(&mut rng));
        let (mut home_model, mut other_model) = (home.clone(), other.clone());
        for chunk in (0..CHUNKS)
            .filter(|_| rng.below(2) == 0)
            .collect::<Vec<_>>()
        {
            scene.encode(chunk);
            // What is decoded counts as data, also where it is zeros.
            other_model.0[chunk as usize] = true;
            if rng.below(3) == 0 {
                scene.differ(chunk);
                home_model.0[chunk as usize] = true;
            }
        }
        let whole = |bare: Pages, store, node| {
            WholeFile::new(Arc::new(bare), store, node, scene.encoded.clone())
        };
        let about = |what| format!("seed {seed}, the {what}");
        compare(&whole(home, HOME, home_node()), &home_model, &about("home"));
        compare(
            &whole(other, OTHER, other_node()),
            &other_model,
            &about("copy"),
        );
    }
}
