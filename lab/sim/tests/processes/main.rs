//! Virtual processes: the paper's example, its workloads under six configurations, and lists that
//! are wrong.

mod holes;
mod papers;
mod parallel;
mod run;
mod wrong;
