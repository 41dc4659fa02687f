//! The sides of the comparison: where each one is worked on, and where its pages are.

use crate::bench::gluster::{Gluster, Kind};
use crate::bench::ours::Ours;
use crate::bench::tree;
use std::path::{Path, PathBuf};

/// Name of the directory that the load works in, on each side.
pub(super) const WORK: &str = "holdfast-bench";

/// One side.
pub(super) struct Side {
    /// Name in the rows.
    pub(super) name: String,
    /// Whether it is there.
    pub(super) present: bool,
    /// Where the load works.
    pub(super) work: PathBuf,
    /// Whether thousands of files are made in seconds, so that slow cases may run in every round.
    pub(super) is_fast: bool,
    /// Trees whose files share the pages: first what applications see, then the copies.
    pages: Vec<PathBuf>,
}

impl Side {
    /// Our mount, or `stand_in`.
    pub(super) fn ours(
        ours: Option<&Ours>,
        stand_in: Option<&Path>,
        scratch: &Path,
    ) -> anyhow::Result<Side> {
        let mount = match (ours, stand_in) {
            (Some(ours), _) => ours.mount(),
            (None, Some(directory)) => directory.canonicalize()?,
            (None, None) => scratch.to_path_buf(),
        };
        let stores = ours.map(|ours| ours.stores().to_vec()).unwrap_or_default();
        Side::new("holdfast".into(), &mount, stores, true)
    }

    /// A bare directory.
    pub(super) fn below(file_system: &str, directory: &Path) -> anyhow::Result<Side> {
        std::fs::create_dir_all(directory)?;
        Side::new(file_system.into(), directory, Vec::new(), true)
    }

    /// A GlusterFS volume of this kind; absent where `gluster` is.
    pub(super) fn gluster(kind: Kind, gluster: Option<&Gluster>) -> anyhow::Result<Side> {
        match gluster {
            Some(gluster) => Side::new(
                kind.name(),
                &gluster.mount(),
                gluster.bricks().to_vec(),
                false,
            ),
            None => Ok(Side {
                name: kind.name(),
                present: false,
                work: PathBuf::new(),
                is_fast: false,
                pages: Vec::new(),
            }),
        }
    }

    /// Whatever is mounted at `root`, with its copies in other trees.
    pub(super) fn new(
        name: String,
        root: &Path,
        copies: Vec<PathBuf>,
        is_fast: bool,
    ) -> anyhow::Result<Side> {
        let work = root.join(WORK);
        std::fs::create_dir(&work)?;
        let mut pages = vec![work.clone()];
        pages.extend(copies);
        Ok(Side {
            name,
            present: true,
            work,
            is_fast,
            pages,
        })
    }

    /// Writes everything out, so that one side's write-back does not fall into another's time.
    pub(super) fn sync(&self) -> anyhow::Result<()> {
        self.pages
            .iter()
            .rev()
            .try_for_each(|root| tree::sync(root))
    }

    /// Makes the side's files cold; after [`Side::sync`].
    pub(super) fn drop_pages(&self) -> anyhow::Result<()> {
        self.pages
            .iter()
            .try_for_each(|root| tree::drop_pages(root))
    }
}

#[cfg(test)]
impl Side {
    /// A side without a place.
    pub(super) fn for_test(name: &str, present: bool, is_fast: bool) -> Side {
        Side {
            name: name.into(),
            present,
            work: PathBuf::new(),
            is_fast,
            pages: Vec::new(),
        }
    }
}
