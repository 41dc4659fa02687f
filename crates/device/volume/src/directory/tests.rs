mod calls;
mod crash;
mod damage;
mod model;
mod random;
