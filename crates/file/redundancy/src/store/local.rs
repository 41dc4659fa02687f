//! A store that is a local directory.
