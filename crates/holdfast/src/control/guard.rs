//! What is refused before the engine is asked, so that a refusal changes nothing.

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use redundancy::status::{Status, StoreState};
use std::path::Path;

/// Whether store `index` may be taken out of use.
///
/// # Errors
/// It is not in use, or files would be left without a copy.
pub(super) fn detach(status: &Status, index: u8) -> Outcome<()> {
    let refuse = |what: String, next: &str| Err(Failure::refuse(Exit::StoreRefused, what, next));
    let Some(store) = status.stores.iter().find(|store| store.index == index) else {
        return Err(Failure::refuse(
            Exit::Usage,
            format!("the set has no store {index}"),
            "`holdfast status` shows the numbers",
        ));
    };
    if store.state == StoreState::Fenced {
        return refuse(
            format!("store {index} is not in use: {}", store.detail),
            "its disk may be taken out",
        );
    }
    if store.state == StoreState::InSync && status.may_lose == 0 {
        return refuse(
            format!("without store {index} some files would have no copy left"),
            "wait until `holdfast status` says that one more store may be lost\n\
             or attach a store first: `holdfast attach DIR`",
        );
    }
    Ok(())
}

/// Whether a store at `path` can be of any use.
///
/// # Errors
/// The path is not absolute, on the mount, or the set has all its stores.
pub(super) fn attach(status: &Status, path: &Path) -> Outcome<()> {
    let refuse = |what: String, next: &str| Err(Failure::refuse(Exit::StorePath, what, next));
    if !path.is_absolute() {
        return refuse(
            format!("{} is not an absolute path", path.display()),
            "name the store from the root",
        );
    }
    let mount = Path::new(&status.mount);
    if path.starts_with(mount) || mount.starts_with(path) {
        return refuse(
            format!("{} is on the mount {}", path.display(), status.mount),
            "keep stores and mount point apart: neither inside the other",
        );
    }
    if status
        .stores
        .iter()
        .all(|store| store.state == StoreState::InSync)
    {
        return Err(Failure::refuse(
            Exit::StoreRefused,
            format!(
                "{} was not attached: no store of the set is away",
                path.display()
            ),
            "to replace a store, detach that one first: `holdfast detach INDEX`",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::double;

    fn one_away() -> Status {
        let mut status = double::status();
        status.stores[1].state = StoreState::Fenced;
        status.stores[1].detail = "it was detached".to_owned();
        status.may_lose = 0;
        status
    }

    #[test]
    fn the_last_copy_of_a_file_is_not_given_away() {
        assert_eq!(detach(&double::status(), 0), Ok(()));
        let failure = detach(&one_away(), 0).expect_err("files with their only copy there");
        insta::assert_snapshot!("the_last_copy", failure.to_string());
        let failure = detach(&one_away(), 1).expect_err("away already");
        insta::assert_snapshot!("away_already", failure.to_string());
    }

    #[test]
    fn a_store_that_is_of_no_use_is_not_touched() {
        let path = Path::new("/mnt/new");
        assert_eq!(attach(&one_away(), path), Ok(()));
        let failure = attach(&double::status(), path).expect_err("the set is complete");
        insta::assert_snapshot!("complete", failure.to_string());
        let inside = Path::new("/srv/holdfast/store");
        let failure = attach(&one_away(), inside).expect_err("on the mount");
        insta::assert_snapshot!("on_the_mount", failure.to_string());
        assert!(attach(&one_away(), Path::new("relative")).is_err());
    }
}
