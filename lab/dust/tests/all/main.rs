//! Tests of Dust over simulated caches and real servers: one program, so that slow tests run side
//! by side.

mod caches;

mod ahead;
mod budget;
mod busy;
mod fresh;
mod hashes;
mod intervals;
mod libcachesim;
mod libraries;
mod nearly;
mod nuisances;
mod off_grid;
mod patterns;
mod proxies;
mod servers;
mod tiny;
mod trials;
