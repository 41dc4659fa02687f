//! Requests that took long, for LATENCY: what `latency-monitor-threshold` asks to remember.

use std::collections::{BTreeMap, VecDeque};

/// Samples that are kept of an event (Redis: LATENCY_TS_LEN).
const SAMPLES_MAX: usize = 160;

/// How long something took at some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sample {
    /// In seconds since 1970.
    pub(crate) at_s: u64,
    pub(crate) ms: u64,
}

/// What took long, of one kind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Event {
    /// The newest last; one for each second.
    pub(crate) samples: VecDeque<Sample>,
    pub(crate) ms_max: u64,
}

/// All that took long.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latency(pub(crate) BTreeMap<&'static str, Event>);

impl Latency {
    /// Notes that something took so long.
    pub(crate) fn note(&mut self, event: &'static str, now: Sample) {
        let event = self.0.entry(event).or_default();
        event.ms_max = event.ms_max.max(now.ms);
        match event.samples.back_mut() {
            Some(last) if last.at_s == now.at_s => last.ms = last.ms.max(now.ms),
            _ => event.samples.push_back(now),
        }
        if event.samples.len() > SAMPLES_MAX {
            event.samples.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_each_second_is_kept_of_the_newest_seconds() {
        let mut latency = Latency::default();
        for at_s in 0..500 {
            for ms in [3, 9, 5] {
                latency.note("command", Sample { at_s, ms });
            }
        }
        latency.note("command", Sample { at_s: 500, ms: 1 });
        let event = &latency.0["command"];
        assert_eq!(event.samples.len(), SAMPLES_MAX);
        assert_eq!(event.samples[0], Sample { at_s: 341, ms: 9 });
        assert_eq!(event.ms_max, 9);
    }
}
