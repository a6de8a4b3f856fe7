//! Tables for people.

use pantler_sim::{Ahead, Job, Loaded, WarmUp, Watch, What, table};
use pantler_steward::Lookahead;
use pantler_trace::Prepared;

#[test]
fn each_lookahead_has_a_column() {
    let loaded = Loaded::new("t", Prepared::from_ids(0..100));
    let run = |lookahead| {
        let what = What::Policy("lru".parse().unwrap());
        let ahead = Some(Ahead { lookahead, window: 1 });
        let job = Job { what, size: 10, ahead, warm_up: WarmUp::None };
        loaded.run(&job, &Watch::default()).unwrap()
    };
    let shown = table(&[run(Lookahead::None), run(Lookahead::SaW2r)]);
    let lines: Vec<Vec<&str>> = shown.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines, [["size", "share", "lru+none", "lru+sa-w2r"], ["10", "10.00%", "0.00%", "99.00%"]]);
}
