//! Tests that plant bugs or look inside.

mod crash;
mod damage;
mod foreign;
mod history;
mod model;
mod replay;
