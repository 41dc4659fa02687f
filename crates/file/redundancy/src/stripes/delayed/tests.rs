use super::*;

/// Bugs that the tests plant to see that they find them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Planted {
    #[default]
    Nothing,
    /// A record behind the mark counts by its head alone.
    BelievesTornRecords,
    /// Pages are let go before the merge of them is durable.
    ClearsBeforeCommit,
    /// What is merged need not be durable in the logs.
    MergesUnsynced,
    /// What replaced a segment's content need not be durable when it goes.
    TrimsUnsynced,
    /// A store that returns keeps its log.
    KeepsStaleLog,
    /// Copies that differ after a crash stay so.
    LeavesCopiesUnequal,
    /// A sync reaches the first copy only.
    SyncsOneCopy,
}

thread_local! {
    static PLANT: std::cell::Cell<Planted> = const { std::cell::Cell::new(Planted::Nothing) };
}

/// What the next [`Delayed::open`] of this thread gets.
pub(super) fn planted() -> Planted {
    PLANT.get()
}
