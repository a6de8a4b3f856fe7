//! Charts and pages: that they are whole, escape what they are given, and need nothing from
//! outside.

use pantler_sim::{Ahead, Job, Loaded, Record, Sharing, Source, WarmUp, Watch, What, html, table};
use pantler_steward::{Allocation, Lookahead};
use pantler_trace::{Block, Prepared, PreparedBuilder, Unit};

const HOSTILE: &str = "</script><b>&\"'.lis";

fn records(trace: &str, policies: &[&str]) -> Vec<Record> {
    let loaded = Loaded::new(Prepared::from_ids((0..3000_u64).map(|at| at * at % 101)), 0);
    let run = |(policy, size): (&&str, u32)| {
        let what = What::Policy(policy.parse().unwrap());
        let source = Source { trace: trace.to_owned(), ..Source::default() };
        let job = Job { source, what, size, ahead: None, warm_up: WarmUp::None, sample: None };
        loaded.run(&job, &Watch::default()).unwrap()
    };
    policies.iter().flat_map(|policy| [5, 10, 20, 40].map(|size| (policy, size))).map(run).collect()
}

#[test]
fn a_page_is_whole_and_needs_nothing() {
    let page = html(&records(HOSTILE, &["lru", "opt"]));
    assert!(!page.contains("<script"), "it needs no script");
    assert!(!page.contains("<b>"), "names are escaped");
    assert!(page.contains("&lt;/script&gt;&lt;b&gt;&amp;&quot;&#x27;.lis"));
    // Nothing is loaded: no address but the names of nothing.
    for word in ["http:", "https:", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(word), "{word}");
    }
    for word in
        ["<html lang=\"en\">", "prefers-color-scheme: dark", "role=\"img\"", "<caption>", "scope=\"row\""]
    {
        assert!(page.contains(word), "{word}");
    }
    // A row for each size, a column for each policy, in the table that needs no script.
    assert_eq!(page.matches("<th scope=\"row\">").count(), 4);
    assert_eq!(page.matches("<td>").count(), 8);
    assert_eq!(page.matches("<g data-series=").count(), 2);
    for element in ["section", "figure", "table", "svg", "g", "main", "body", "html"] {
        let opened =
            page.matches(&format!("<{element}>")).count() + page.matches(&format!("<{element} ")).count();
        assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
    }
}

/// Two owners, one with a name that would end a script.
fn shared(whats: &[What], sizes: &[u32]) -> Vec<Record> {
    let mut builder = PreparedBuilder::new(Unit::Object);
    for at in 0..2000_u64 {
        let block = Block { file: 0, index: at * at % 61 };
        builder.reference(u32::from(at % 3 == 0), block, 0).unwrap();
    }
    let names = ["a", HOSTILE].map(str::to_owned).to_vec();
    let loaded = Loaded::new(builder.finish(names, Vec::new()), 0);
    let run = |(what, &size): (&What, &u32)| {
        let source = Source { trace: "t".to_owned(), ..Source::default() };
        let job = Job { source, what: what.clone(), size, ahead: None, warm_up: WarmUp::None, sample: None };
        loaded.run(&job, &Watch::default()).unwrap()
    };
    whats.iter().flat_map(|what| sizes.iter().map(move |size| (what, size))).map(run).collect()
}

#[test]
fn a_page_has_what_became_of_owners() {
    let lru = What::Policy("lru".parse().unwrap());
    let fifo = What::Policy("fifo".parse().unwrap());
    let sharing = What::Sharing(Box::new(Sharing::new(Allocation::LruSp)));
    // Lines for all, then for each owner, with a table each; allocations also have the table of
    // owners.
    for (whats, sizes, figures, captions, series) in [
        (vec![lru.clone()], &[5, 10, 20][..], 2, 2, 1 + 2),
        (vec![lru.clone(), fifo], &[5, 10][..], 2, 2, 2 + 4),
        (vec![lru], &[7][..], 1, 2, 1),
        (vec![sharing], &[5, 10][..], 2, 3, 1 + 2),
    ] {
        let records = shared(&whats, sizes);
        let page = html(&records);
        assert_eq!(page.matches("<figure>").count(), figures);
        assert_eq!(page.matches("<caption>").count(), captions);
        assert_eq!(page.matches("<g data-series=").count(), series);
        assert!(!page.contains("<b>"), "names are escaped");
        for record in &records {
            for (owner, counts) in record.owners() {
                assert!(counts.requests > 0, "{owner}");
                assert!(page.contains(&format!("<td>{:.2}%</td>", 100.0 * counts.hit_ratio())), "{owner}");
            }
        }
        for element in ["section", "figure", "table", "tr", "thead", "tbody", "svg", "g", "main"] {
            let opened =
                page.matches(&format!("<{element}>")).count() + page.matches(&format!("<{element} ")).count();
            assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
        }
    }
    // One owner is all.
    assert!(!html(&records("t", &["lru"])).contains("By owner"));
}

#[test]
fn each_lookahead_has_a_column() {
    let loaded = Loaded::new(Prepared::from_ids(0..100), 0);
    let run = |lookahead| {
        let (what, source) = (What::Policy("lru".parse().unwrap()), Source::default());
        let ahead = Some(Ahead { lookahead, window: 1 });
        let job = Job { source, what, size: 10, ahead, warm_up: WarmUp::None, sample: None };
        loaded.run(&job, &Watch::default()).unwrap()
    };
    let shown = table(&[run(Lookahead::None), run(Lookahead::SaW2r)]);
    let lines: Vec<Vec<&str>> = shown.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines, [["size", "share", "lru+none", "lru+sa-w2r"], ["10", "10.00%", "0.00%", "99.00%"]]);
}
