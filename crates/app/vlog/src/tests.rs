//! Tests of the whole, on a simulated machine.

mod crash;
mod damage;
mod formats;
mod large;
mod model;
mod threads;
