//! Files stored as plain local files and kept redundant on other stores.
pub mod config;
pub mod label;
pub mod status;
pub mod store;

pub use config::{Config, ConfigError};
