mod calls;
mod crash;
mod damage;
mod golden;
mod model;
mod pieces;
mod random;
mod threads;
