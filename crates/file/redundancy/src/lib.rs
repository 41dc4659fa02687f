//! Files stored as plain local files and kept redundant on other stores.
pub mod label;
pub mod status;
pub mod store;
