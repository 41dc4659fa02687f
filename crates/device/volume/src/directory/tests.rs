mod calls;
mod crash;
mod damage;
mod golden;
mod model;
mod random;
mod threads;
