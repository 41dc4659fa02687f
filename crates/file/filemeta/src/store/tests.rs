//! Tests that plant bugs or look inside.

mod crash;
mod history;
mod model;
mod replay;
