//! Walking over a whole tree: is it one, and what has lost something.

use super::catalogue::read_page;
use super::draft::orphan_name;
use super::folder::Folder;
use super::inode::{self, Inode};
use super::{ORPHANS, Role, TABLE, attributes, attributes_of, content_of, is_tree, role};
use crate::engine::Damage;
use crate::error::{Result, VolumeError};
use crate::{BLOCK_BYTES, ObjectId, Volume};
use mount::{Ino, Kind};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Something that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Problem {
    /// A path from the root of the tree, of the file or directory; what is no UTF-8 in it is
    /// replaced. Empty where it has none that is known.
    pub path: String,
    /// Its inode; 0 where it is about none.
    pub ino: u64,
    /// What is wrong.
    pub complaint: String,
}

/// What a walk found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct TreeReport {
    /// Directories.
    pub directories: u64,
    /// Everything else that has a name or is about to be removed.
    pub files: u64,
    /// What is not as it should be; a file with several damaged blocks has one for each.
    pub problems: Vec<Problem>,
}

struct Walk<'a> {
    volume: &'a Volume,
    inodes: BTreeMap<Ino, Inode>,
    /// Where each inode was found first.
    places: BTreeMap<Ino, (Ino, Vec<u8>)>,
    /// Names found, of directories the directories in them.
    counted: BTreeMap<Ino, u32>,
    /// Whether everything could be read: else what is not found proves nothing.
    whole: bool,
    report: TreeReport,
}

/// Walks over the tree of a volume that nobody changes meanwhile; `damaged` are blocks that are known
/// to be lost ([`Volume::check`]), whose files are named. `None` where the volume has no tree.
///
/// # Errors
/// Of the disks. What is wrong with the tree is no error here: the report has it.
pub fn check(volume: &Volume, damaged: &[Damage]) -> Result<Option<TreeReport>> {
    if !is_tree(volume) {
        return Ok(None);
    }
    let mut walk = Walk {
        volume,
        inodes: BTreeMap::new(),
        places: BTreeMap::new(),
        counted: BTreeMap::new(),
        whole: true,
        report: TreeReport::default(),
    };
    walk.read_table()?;
    walk.walk_down()?;
    walk.look_at_orphans()?;
    walk.compare_links();
    walk.compare_objects()?;
    for damage in damaged {
        walk.name_damage(damage);
    }
    Ok(Some(walk.report))
}

impl Walk<'_> {
    fn problem(&mut self, ino: Ino, complaint: String) {
        let path = self.path(ino).unwrap_or_default();
        self.report.problems.push(Problem {
            path,
            ino: ino.0,
            complaint,
        });
    }

    /// The path of an inode; `None` where it has none.
    fn path(&self, ino: Ino) -> Option<String> {
        let mut names = Vec::new();
        let mut at = ino;
        // No path is longer than there are inodes: a circle ends here.
        for _ in 0..=self.places.len() {
            if at == Ino::ROOT {
                names.reverse();
                return Some(format!("/{}", names.join("/")));
            }
            let (parent, name) = self.places.get(&at)?;
            names.push(String::from_utf8_lossy(name).into_owned());
            at = *parent;
        }
        None
    }

    fn read_table(&mut self) -> Result<()> {
        let unit = BLOCK_BYTES as u64;
        let pages = self.volume.size(TABLE).unwrap_or(0).div_ceil(unit);
        let mut next = 0;
        while next < pages {
            let (hole, length) = self.volume.extent(TABLE, next * unit);
            if hole {
                next += (length / unit).max(1);
                continue;
            }
            let Ok(number) = u32::try_from(next) else {
                break;
            };
            match read_page(self.volume, number) {
                Ok(inodes) => {
                    let first = inode::first_of(number).0;
                    let found = (first..).zip(inodes);
                    self.inodes
                        .extend(found.filter_map(|(ino, inode)| Some((Ino(ino), inode?))));
                }
                Err(error @ VolumeError::Io { .. }) => return Err(error),
                Err(error) => {
                    self.whole = false;
                    let first = inode::first_of(number).0;
                    let last = first + inode::INODES_PER_PAGE - 1;
                    let complaint = format!("inodes {first} to {last} are lost: {error}");
                    self.problem(Ino(0), complaint);
                }
            }
            next += 1;
        }
        Ok(())
    }

    fn folder(&mut self, dir: Ino, object: ObjectId) -> Result<Folder> {
        let mut complaints = Vec::new();
        let folder = Folder::load(self.volume, object, &mut |page, complaint| {
            complaints.push(format!("page {page} of its names is lost: {complaint}"));
        })?;
        for complaint in complaints {
            self.whole = false;
            self.problem(dir, complaint);
        }
        Ok(folder)
    }

    fn walk_down(&mut self) -> Result<()> {
        let mut open = vec![Ino::ROOT];
        let mut seen = BTreeSet::from([Ino::ROOT]);
        if (self.inodes.get(&Ino::ROOT)).is_none_or(|root| root.kind != Kind::Dir) {
            self.problem(Ino::ROOT, "the root is no directory".to_owned());
        }
        while let Some(dir) = open.pop() {
            self.report.directories += 1;
            let folder = self.folder(dir, content_of(dir))?;
            for (name, named) in folder.entries() {
                let ino = named.ino;
                self.places.entry(ino).or_insert((dir, name.to_vec()));
                let inode = self.inodes.get(&ino).copied();
                match inode {
                    None if self.whole => {
                        self.problem(ino, "the name leads to no inode".to_owned());
                    }
                    Some(inode) if inode.kind != named.kind => {
                        self.problem(ino, "the name and the inode differ in type".to_owned());
                    }
                    _ => {}
                }
                if named.kind != Kind::Dir {
                    self.report.files += u64::from(!self.counted.contains_key(&ino));
                    *self.counted.entry(ino).or_default() += 1;
                    continue;
                }
                *self.counted.entry(dir).or_default() += 1;
                if inode.is_some_and(|inode| inode.parent != dir) {
                    self.problem(ino, "the directory says that it is elsewhere".to_owned());
                }
                match seen.insert(ino) {
                    true => open.push(ino),
                    false => self.problem(ino, "the directory has two names".to_owned()),
                }
            }
        }
        for ino in seen {
            *self.counted.entry(ino).or_default() += 2;
        }
        Ok(())
    }

    fn look_at_orphans(&mut self) -> Result<()> {
        let folder = self.folder(Ino(0), ORPHANS)?;
        for (name, named) in folder.entries() {
            self.report.files += 1;
            let fits = name == orphan_name(named.ino).as_bytes();
            let links = self.inodes.get(&named.ino).map(|inode| inode.links);
            if !fits || links != Some(0) && self.whole || self.counted.contains_key(&named.ino) {
                let complaint = format!("listed as removed, with links {links:?}");
                self.problem(named.ino, complaint);
            }
            self.counted.insert(named.ino, 0);
        }
        Ok(())
    }

    fn compare_links(&mut self) {
        if !self.whole {
            return;
        }
        let wrong: Vec<(Ino, String)> = (self.inodes.iter())
            .filter_map(|(ino, inode)| {
                let complaint = match self.counted.get(ino) {
                    None => "the inode has no name".to_owned(),
                    Some(counted) if *counted != inode.links => {
                        format!("{} links, but {counted} names", inode.links)
                    }
                    Some(_) => return None,
                };
                Some((*ino, complaint))
            })
            .collect();
        for (ino, complaint) in wrong {
            self.problem(ino, complaint);
        }
    }

    fn compare_objects(&mut self) -> Result<()> {
        for (object, size) in self.volume.objects() {
            let fits = match role(object) {
                Role::Table | Role::Orphans => true,
                Role::Content(ino) => (self.inodes.get(&ino)).map_or(!self.whole, |inode| {
                    matches!(inode.kind, Kind::File | Kind::Dir | Kind::Symlink)
                }),
                Role::Attributes(ino) => {
                    (self.inodes.get(&ino)).map_or(!self.whole, |inode| inode.attributes)
                }
                Role::Device | Role::Unknown => false,
            };
            if !fits {
                let complaint = format!("object {object} of {size} bytes belongs to nothing");
                self.problem(Ino(0), complaint);
            }
        }
        let inodes: Vec<(Ino, Inode)> = self.inodes.iter().map(|(i, n)| (*i, *n)).collect();
        for (ino, inode) in inodes {
            let size = self.volume.size(content_of(ino));
            let has_content = matches!(inode.kind, Kind::File | Kind::Dir | Kind::Symlink);
            if has_content && size.is_none() {
                self.problem(ino, "its content is missing".to_owned());
            }
            if inode.attributes {
                self.look_at_attributes(ino)?;
            }
        }
        Ok(())
    }

    fn look_at_attributes(&mut self, ino: Ino) -> Result<()> {
        let object = attributes_of(ino);
        let size = self.volume.size(object).unwrap_or(0);
        let mut bytes = vec![0; size.min(attributes::LIST_BYTES_MAX as u64) as usize];
        match self.volume.read(object, 0, &mut bytes) {
            Ok(()) => {}
            Err(error @ VolumeError::Io { .. }) => return Err(error),
            // Lost blocks are named below.
            Err(VolumeError::Corrupt { .. } | VolumeError::Lost { .. }) => return Ok(()),
            Err(error) => {
                self.problem(ino, error.to_string());
                return Ok(());
            }
        }
        if let Err(corruption) = attributes::decode(&bytes, self.volume.id(), object) {
            self.problem(ino, format!("its attributes are lost: {corruption}"));
        }
        Ok(())
    }

    fn name_damage(&mut self, damage: &Damage) {
        let start = u64::from(damage.block) * BLOCK_BYTES as u64;
        let end = start + BLOCK_BYTES as u64;
        let why = &damage.complaint;
        match role(ObjectId(damage.object)) {
            // Pages of directories have been named already, with what it means.
            Role::Content(ino)
                if (self.inodes.get(&ino)).is_some_and(|inode| inode.kind == Kind::Dir) => {}
            Role::Content(ino) => {
                self.problem(ino, format!("bytes {start} to {end} are lost: {why}"));
            }
            Role::Attributes(ino) => {
                self.problem(ino, format!("extended attributes are lost: {why}"));
            }
            Role::Orphans | Role::Table | Role::Device | Role::Unknown => {}
        }
    }
}
