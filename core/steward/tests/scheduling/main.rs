//! Scheduling: the slow twin, what owners are promised, and what is found out about devices.

mod device;
mod medium;
mod naive;
mod pace;
mod props;
