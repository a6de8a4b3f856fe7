//! The cache with its real threads, in virtual time: the simulator's programs and disks, so that
//! what the cache asks of a disk, and how long that takes, can be compared with what the simulator
//! says.

mod order;
mod world;
mod wrong;
