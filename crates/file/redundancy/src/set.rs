//! Which stores form a set, and which of them hold the truth.

pub mod assemble;
pub mod header;

pub use assemble::{Assembly, Presence, RefuseReason, assemble};
pub use header::{Header, HeaderError, SetId, StoreId, Tenure};
