mod crash;
mod damage;
mod left;
mod model;
mod recent;
mod threads;
