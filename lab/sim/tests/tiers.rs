//! Tiers over the traces of the paper, and over generated ones with several clients.

use pantler_sim::tiers::{Clients, TiersJob, TiersRecord, run_all_tiers, run_tiers, tiers_table};
use pantler_sim::tiers::{Tally, Times};
use pantler_sim::{Control, Json, Loaded, Sharing, WarmUp, load};
use pantler_steward::Allocation;
use pantler_steward::placement::Sizes;
use pantler_trace::Options;
use pantler_trace::testing::locate;

fn job(protocol: &str, sizes: &[u32], clients: Clients) -> TiersJob {
    TiersJob {
        protocol: protocol.parse().expect("a protocol"),
        sizes: Sizes::new(sizes).expect("sane sizes"),
        clients,
        sharing: Sharing::new(Allocation::LruSp),
        warm_up: WarmUp::Share(0.1),
        times: Times::paper(sizes.len()),
    }
}

fn loaded(trace: &str) -> Loaded {
    load(trace, &Options::default()).expect("a trace").0
}

fn time(loaded: &Loaded, protocol: &str, sizes: &[u32], clients: Clients) -> (f64, Tally) {
    let job = job(protocol, sizes, clients);
    let tally = run_tiers(loaded.trace(), &job).expect("a protocol for so many clients").tally;
    (tally.average_time_ms(&job.times), tally)
}

#[test]
fn traces_of_the_paper() {
    for name in ["cs", "gli", "cpp", "multi3"] {
        let Some(path) = locate(&format!("lirs/{name}.trace.gz")) else { continue };
        let loaded = loaded(path.to_str().expect("a path of the project"));
        let sizes = [loaded.trace().distinct() / 10; 3];
        let (uni, _) = time(&loaded, "uni-lru", &sizes, Clients::One);
        let (placed, tally) = time(&loaded, "ulc", &sizes, Clients::One);
        assert!(placed <= 0.85 * uni, "{name}: ulc takes {placed} ms, uni-lru {uni} ms");
        for demotions in tally.demotions {
            assert!(demotions * 10 < tally.requests, "{name}: {tally:?}");
        }
    }
}

#[test]
fn uni_lru_wins_where_programs_turn_to_new_blocks() {
    for (name, shares) in [("arc/OLTP.lis.zst", [50, 10]), ("kv/orm-night.trace.xz", [50, 10])] {
        // Five million references take long without optimisation; OLTP stands for both there.
        let large = name.starts_with("kv");
        let Some(path) = locate(name).filter(|_| !large || !cfg!(debug_assertions)) else { continue };
        let loaded = loaded(path.to_str().expect("a path of the project"));
        for share in shares {
            let sizes = [loaded.trace().distinct() / share; 3];
            let (uni, _) = time(&loaded, "uni-lru", &sizes, Clients::One);
            let (ulc, _) = time(&loaded, "ulc", &sizes, Clients::One);
            assert!(uni < ulc, "{name} at a {share}th: {ulc} {uni}");
        }
    }
}

/// A client that loops, one that has favourites, and so on.
fn processes(clients: u16) -> String {
    let parts: Vec<String> = (0..clients)
        .map(|client| match client % 2 {
            0 => format!("c{client}=(loop:ids=900,requests=12000)"),
            _ => format!("c{client}=(zipf:alpha=0.9,ids=3000,requests=12000,seed={client})"),
        })
        .collect();
    format!("mix:{}", parts.join(","))
}

/// Figure 11 in small: private blocks (each process has its own), then shared ones (references are
/// dealt).
#[test]
fn several_clients() {
    for clients in [2, 4, 8] {
        let private = loaded(&processes(clients));
        let shared = loaded("zipf:alpha=0.8,ids=4000,requests=48000");
        let dealt = Clients::Dealt { count: clients.try_into().expect("not 0"), seed: 1 };
        for (trace, who) in [(&private, Clients::Owners), (&shared, dealt)] {
            for server in [200, 800, 2400] {
                let time = |protocol| time(trace, protocol, &[300, server], who).0;
                let (ulc, by_request) = (time("ulc"), time("ulc-request-order"));
                // Where all clients share every block and nearly all fit the server, tiers without
                // duplicates lose to ind-lru: docs/benchmarks/tiers.md.
                let rivals =
                    if who == Clients::Owners { &["uni-lru", "ind-lru", "mq"][..] } else { &["uni-lru"] };
                for rival in rivals {
                    let rival_ms = time(rival);
                    assert!(ulc < rival_ms, "{clients} clients, {server} frames: {ulc}, {rival} {rival_ms}");
                }
                assert!(by_request < 1.15 * ulc, "{clients} clients, {server} frames: {by_request} {ulc}");
            }
        }
    }
}

#[test]
fn records_add_up_and_threads_change_nothing() {
    let loaded = loaded("zipf:ids=500,requests=20000");
    let jobs = ["ind-lru", "uni-lru", "ulc"].map(|protocol| job(protocol, &[50, 60, 70], Clients::One));
    let tallies = run_all_tiers(loaded.trace(), &jobs, 3);
    assert_eq!(tallies, run_all_tiers(loaded.trace(), &jobs, 1));
    let records: Vec<TiersRecord> = jobs
        .iter()
        .zip(tallies)
        .map(|(job, tally)| TiersRecord::new("z", &loaded, job, &tally.expect("one client")))
        .collect();
    for record in &records {
        let sum: f64 = record.hit_ratios.iter().sum::<f64>() + record.miss_ratio;
        assert!((sum - 1.0).abs() < 1e-9, "{record:?}");
        assert_eq!((record.requests, record.about.warm_up), (18_000, 2_000));
        assert_eq!((record.hit_ratios.len(), record.demotion_rates.len()), (3, 2));
        let json: serde_json::Value = serde_json::from_str(&record.to_json()).expect("JSON");
        assert_eq!((&json["kind"], &json["sizes"][2]), (&"sim-tiers".into(), &70.into()));
    }
    let table = tiers_table(&records);
    assert!(table.starts_with("z: 18,000 requests, 500 objects, after 2,000 to warm up\n"), "{table}");
    assert_eq!(table.lines().count(), 5);
}

/// LRU-SP says which block leaves memory, and ULC where it goes: an owner that loops keeps what it
/// can with `mru`, and its neighbour loses nothing by it.
#[test]
fn owners_with_hints_over_tiers() {
    let loaded =
        loaded("mix:loops=(loop:ids=300,requests=12000),skewed=(zipf:alpha=0.9,ids=2000,requests=12000)");
    let run = |control: &str| {
        let control = Control::parse("control", control).expect("control");
        let sharing = Sharing { control, ..Sharing::new(Allocation::LruSp) };
        let job = TiersJob { sharing, ..job("ulc:passing", &[200, 100, 100], Clients::One) };
        let ran = run_tiers(loaded.trace(), &job).expect("one client");
        let names: Vec<&str> = ran.owners.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names, &ran.unknown), (vec!["loops", "skewed"], &Vec::new()));
        let owners = [ran.owners[0].1, ran.owners[1].1];
        let sum = |of: fn(&Tally) -> u64| owners.iter().map(of).sum::<u64>();
        assert_eq!(sum(|tally| tally.requests), ran.tally.requests);
        (0..3).for_each(|tier| assert_eq!(owners[0].hits[tier] + owners[1].hits[tier], ran.tally.hits[tier]));
        let record = TiersRecord::new("mix", &loaded, &job, &ran);
        assert_eq!(record.owners[1].requests, owners[1].requests);
        assert!(tiers_table(&[record]).lines().any(|line| line.trim_start().starts_with("skewed ")));
        owners
    };
    let (plain, hinted) = (run(""), run("[loops.policies]\n0 = \"mru\"\n[loops.priorities]\n"));
    println!("{plain:?}\n{hinted:?}");
    assert!(
        hinted[0].hits[0] > 0 && plain[0].hits != hinted[0].hits,
        "the hint changes what is served where"
    );
    // Dropped instead of demoted.
    let unwanted = run("[loops.priorities]\nloops = -1\n");
    let demoted = |owners: [Tally; 2]| owners[0].demotions[0] + owners[1].demotions[0];
    assert!(demoted(unwanted) < demoted(plain), "{unwanted:?}, {plain:?}");
}
