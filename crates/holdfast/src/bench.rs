//! `holdfast bench`: each part's benchmark against its peers.

pub(crate) mod fio;
pub(crate) mod gluster;
pub(crate) mod load;
pub(crate) mod memory;
pub(crate) mod ours;
pub(crate) mod process;
pub(crate) mod redundancy;
pub(crate) mod row;
pub(crate) mod tree;
