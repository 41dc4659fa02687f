//! Does one thing on several stores at once.

use crate::label::StoreIndex;

/// Calls `act` once for each item, all at the same time where `parallel` (the first on the calling
/// thread), else in order; returns the answers in the order of the items.
///
/// A thread costs about 20 microseconds to start, so this is for what waits for a medium.
pub(crate) fn fanout<T: Sync, R: Send>(
    items: &[(StoreIndex, T)],
    parallel: bool,
    act: impl Fn(StoreIndex, &T) -> R + Sync,
) -> Vec<(StoreIndex, R)> {
    if !parallel || items.len() < 2 {
        return items.iter().map(|(s, item)| (*s, act(*s, item))).collect();
    }
    let (first, others) = items.split_first().expect("there are at least two");
    std::thread::scope(|scope| {
        let act = &act;
        let handles: Vec<_> = others
            .iter()
            .map(|(s, item)| (*s, scope.spawn(move || act(*s, item))))
            .collect();
        let mut answers = vec![(first.0, act(first.0, &first.1))];
        for (s, handle) in handles {
            match handle.join() {
                Ok(answer) => answers.push((s, answer)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        answers
    })
}
