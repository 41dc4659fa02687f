//! Both sides of a measurement.

use super::NAME;
use crate::bench::row::{Better, Report, Row, compare};

/// Something of ours, and of the peer where there is one.
pub(super) struct Pair<T> {
    pub(super) ours: T,
    pub(super) peer: Option<T>,
}

impl<T> Pair<T> {
    /// The same of both.
    pub(super) fn map<U>(
        self,
        mut work: impl FnMut(T) -> anyhow::Result<U>,
    ) -> anyhow::Result<Pair<U>> {
        Ok(Pair {
            ours: work(self.ours)?,
            peer: self.peer.map(work).transpose()?,
        })
    }

    /// Works on both; the one that begins changes with the round.
    pub(super) fn each(
        &mut self,
        round: usize,
        mut work: impl FnMut(Side, &mut T) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if !round.is_multiple_of(2)
            && let Some(peer) = &mut self.peer
        {
            work(Side::Peer, peer)?;
        }
        work(Side::Ours, &mut self.ours)?;
        if round.is_multiple_of(2)
            && let Some(peer) = &mut self.peer
        {
            work(Side::Peer, peer)?;
        }
        Ok(())
    }
}

/// Which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Ours,
    Peer,
}

/// What was measured, of both sides, under one name.
#[derive(Clone, Debug)]
pub(super) struct Samples {
    metric: &'static str,
    unit: &'static str,
    better: Better,
    ours: Vec<f64>,
    peer: Vec<f64>,
}

impl Samples {
    pub(super) fn new(metric: &'static str, unit: &'static str, better: Better) -> Samples {
        Samples {
            metric,
            unit,
            better,
            ours: Vec::new(),
            peer: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, side: Side, value: f64) {
        match side {
            Side::Ours => self.ours.push(value),
            Side::Peer => self.peer.push(value),
        }
    }

    /// Reports them.
    pub(super) fn report(
        &self,
        report: &mut Report,
        case: &str,
        note: impl Into<String>,
    ) -> anyhow::Result<()> {
        let compared = compare(&self.ours, &self.peer)?;
        report.add(Row {
            bench: NAME.into(),
            case: case.into(),
            metric: self.metric.into(),
            unit: self.unit.into(),
            better: self.better,
            ours: compared.ours,
            peer: compared.peer,
            peer_name: "redis".into(),
            ratio: compared.ratio,
            runs: compared.runs,
            spread: compared.spread,
            note: note.into(),
        })
    }
}
