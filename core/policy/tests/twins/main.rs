//! Every policy against a slow twin written from its paper: vectors and linear searches.
//!
//! A failing random run prints its seed; `PANTLER_TEST_SEED=SEED cargo test -p pantler-policy
//! --test twins NAME` replays it.

mod harness;

// One file per policy or family.
mod clock;
mod lfu;
mod lists;
mod random;
mod s3_fifo;
mod segments;
mod sieve;
mod two_q;

// Policies with ghosts, sketches or samples.
mod arc;
mod auto;
mod car;
mod clock_pro;
mod eelru;
mod linux;
mod lirs;
mod lrfu;
mod lru_k;
mod memcached;
mod mglru;
mod mq;
mod redis;
mod w_tinylfu;
