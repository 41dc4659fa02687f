//! Whole transfers: of all kinds of trees, cut anywhere, with faults in each layer, and with
//! senders that lie.

#[path = "transfers/cuts.rs"]
mod cuts;
#[path = "transfers/deletion.rs"]
mod deletion;
#[path = "transfers/delta.rs"]
mod delta;
#[path = "transfers/evidence.rs"]
mod evidence;
#[path = "transfers/filters.rs"]
mod filters;
#[path = "transfers/levels.rs"]
mod levels;
#[path = "transfers/liars.rs"]
mod liars;
#[path = "transfers/orders.rs"]
mod orders;
#[path = "transfers/place.rs"]
mod place;
#[path = "transfers/storms.rs"]
mod storms;
#[path = "transfers/trees.rs"]
mod trees;
