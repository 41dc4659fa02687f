//! Does one thing on several stores at once.

use crate::label::StoreIndex;
use smallvec::SmallVec;

/// Calls `act` once for each item, all at the same time where `parallel` (the first on the calling
/// thread), else in order; returns the answers in the order of the items.
///
/// A thread costs tens of microseconds to start and to wait for, so this is for what waits for a
/// medium or a network.
pub(crate) fn fanout<T: Sync, R: Send>(
    items: &[(StoreIndex, T)],
    parallel: bool,
    act: impl Fn(StoreIndex, &T) -> R + Sync,
) -> Vec<(StoreIndex, R)> {
    fanout_by(items, parallel, |store| u64::from(store.0), act)
}

/// As [`fanout`], but what is on one `lane` is done in order: two syncs of one medium share its
/// queue, and a thread for the second costs more than it wins.
pub(crate) fn fanout_by<T: Sync, R: Send>(
    items: &[(StoreIndex, T)],
    parallel: bool,
    lane: impl Fn(StoreIndex) -> u64,
    act: impl Fn(StoreIndex, &T) -> R + Sync,
) -> Vec<(StoreIndex, R)> {
    let lanes: SmallVec<[u64; 4]> = items.iter().map(|(s, _)| lane(*s)).collect();
    let first = lanes.first().copied();
    if !parallel || lanes.iter().all(|l| Some(*l) == first) {
        return items.iter().map(|(s, item)| (*s, act(*s, item))).collect();
    }
    let run = |wanted: u64| -> Vec<(usize, R)> {
        let mine = lanes.iter().enumerate().filter(|(_, l)| **l == wanted);
        mine.filter_map(|(at, _)| {
            let (store, item) = items.get(at)?;
            Some((at, act(*store, item)))
        })
        .collect()
    };
    let mut answers = std::thread::scope(|scope| {
        let run = &run;
        let mut others: SmallVec<[u64; 4]> = lanes.iter().copied().collect();
        others.sort_unstable();
        others.dedup();
        others.retain(|l| Some(*l) != first);
        let handles: Vec<_> = others
            .into_iter()
            .map(|lane| scope.spawn(move || run(lane)))
            .collect();
        let mut answers = first.map(run).unwrap_or_default();
        for handle in handles {
            match handle.join() {
                Ok(more) => answers.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        answers
    });
    answers.sort_unstable_by_key(|(at, _)| *at);
    answers
        .into_iter()
        .filter_map(|(at, answer)| Some((items.get(at)?.0, answer)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_keep_the_order_of_the_items_and_lanes_run_in_theirs() {
        let items: Vec<_> = [3u8, 0, 2, 1].map(|s| (StoreIndex(s), s)).into();
        let seen = parking_lot::Mutex::new(Vec::new());
        let lane = |s: StoreIndex| u64::from(s.0 % 2);
        let answers = fanout_by(&items, true, lane, |store, item| {
            seen.lock().push((store, std::thread::current().id()));
            item * 10
        });
        let expected: Vec<_> = items.iter().map(|(s, item)| (*s, item * 10)).collect();
        assert_eq!(answers, expected);
        let seen = seen.into_inner();
        for (first, second) in [(3, 1), (0, 2)] {
            let at = |s: u8| seen.iter().position(|(i, _)| i.0 == s).expect("was done");
            assert!(at(first) < at(second));
            assert_eq!(seen[at(first)].1, seen[at(second)].1, "one thread a lane");
        }
    }
}
