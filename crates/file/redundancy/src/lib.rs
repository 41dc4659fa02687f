//! Files stored as plain local files and kept redundant on other stores.
pub mod label;
#[cfg(feature = "model")]
pub mod model;
pub mod status;
pub mod store;
