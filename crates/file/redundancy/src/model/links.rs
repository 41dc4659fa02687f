//! What the links of one object may have become after a power cut.
//!
//! Each link is on its own: what happened to one that was not synced may be lost while what
//! happened later to another is kept (docs/failure-model.md). A rename moves a link, so that it is
//! found at the old name or at the new one, at exactly one of them.

use super::tree::Names;
use std::ffi::OsString;

type Place = (u64, OsString);

/// Where one link was, version by version; `None` where it did not exist.
struct Link(Vec<Option<Place>>);

/// Whether `seen` is one state for each link of the object that had the names `versions`, oldest
/// first. A link whose place is `taken` (by another object, or with its directory) may be missing.
pub(super) fn reachable(versions: &[&Names], seen: &Names, taken: impl Fn(&Place) -> bool) -> bool {
    let mut links = follow(versions);
    let mut lost = false;
    for Link(states) in &mut links {
        if states.iter().flatten().any(&taken) {
            lost = true;
            states.push(None);
        }
    }
    // No call leaves an object without any name that had one before and after.
    let always = versions.iter().all(|names| !names.is_empty());
    if seen.is_empty() && always && !lost {
        return false;
    }
    let missing: Vec<&Place> = seen.iter().collect();
    choose(&links, seen, &missing)
}

/// The links that the versions tell of: one name for another is a link that moved.
fn follow(versions: &[&Names]) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    let mut before: Option<&Names> = None;
    for (index, names) in versions.iter().enumerate() {
        let held = before.into_iter().flatten();
        let mut gone: Vec<&Place> = held.filter(|at| !names.contains(*at)).collect();
        let came = names
            .iter()
            .filter(|at| before.is_none_or(|before| !before.contains(*at)));
        for place in came {
            let moved = gone.pop().and_then(|from| {
                let ends_there = |link: &&mut Link| link.0.last() == Some(&Some(from.clone()));
                links.iter_mut().find(ends_there)
            });
            match moved {
                Some(link) => link.0.push(Some(place.clone())),
                None if index == 0 => links.push(Link(vec![Some(place.clone())])),
                None => links.push(Link(vec![None, Some(place.clone())])),
            }
        }
        for from in gone {
            let ends_there = |link: &&mut Link| link.0.last() == Some(&Some(from.clone()));
            if let Some(link) = links.iter_mut().find(ends_there) {
                link.0.push(None);
            }
        }
        before = Some(names);
    }
    links
}

/// Whether each of `links` can choose one of its states, so that all of `missing`, and nothing that
/// was not seen, is chosen.
fn choose(links: &[Link], seen: &Names, missing: &[&Place]) -> bool {
    let Some((Link(states), rest)) = links.split_first() else {
        return missing.is_empty();
    };
    if missing.len() > links.len() {
        return false;
    }
    states.iter().any(|state| match state {
        None => choose(rest, seen, missing),
        Some(place) if seen.contains(place) => {
            let missing: Vec<&Place> = missing.iter().copied().filter(|m| *m != place).collect();
            choose(rest, seen, &missing)
        }
        Some(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &str) -> Names {
        of.chars()
            .map(|c| (1, OsString::from(c.to_string())))
            .collect()
    }

    fn found(versions: &[&str], seen: &str) -> bool {
        let versions: Vec<Names> = versions.iter().map(|of| names(of)).collect();
        let versions: Vec<&Names> = versions.iter().collect();
        reachable(&versions, &names(seen), |_| false)
    }

    #[test]
    fn one_link_is_where_it_was_once() {
        for seen in ["a", "b", "c"] {
            assert!(found(&["a", "b", "c"], seen), "{seen}");
        }
        for seen in ["", "ab", "bc", "d"] {
            assert!(!found(&["a", "b", "c"], seen), "{seen}");
        }
    }

    #[test]
    fn each_link_is_on_its_own() {
        assert!(found(&["a", "ab", "abc", "dbc"], "dc"));
        assert!(found(&["a", "ab", "abc", "dbc"], "ac"));
        assert!(
            !found(&["a", "ab", "abc", "dbc"], "bc"),
            "a or d is missing"
        );
        assert!(
            !found(&["a", "ab", "abc", "dbc"], "adc"),
            "a and d are one link"
        );
    }

    #[test]
    fn an_object_keeps_a_name() {
        assert!(!found(&["a", "ab", "b"], ""));
        assert!(found(&["a", "ab", "b", ""], ""));
        assert!(found(&["", "a"], ""));
    }

    #[test]
    fn a_link_whose_place_is_taken_may_be_missing() {
        let (one, two) = (names("ab"), names("cb"));
        let taken = |at: &Place| at.1 == "c";
        assert!(reachable(&[&one, &two], &names("b"), taken));
        assert!(!reachable(&[&one, &two], &names("a"), taken));
    }
}
