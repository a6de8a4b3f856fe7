//! Access lists: the theorem, the paper's example, the rules, and the slow twin.

mod machine;
mod model;
mod rules;
