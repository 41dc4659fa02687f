mod crash;
mod damage;
mod model;
mod threads;
