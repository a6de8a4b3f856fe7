//! What is believed of every page is what the kernel says of it, all the time.

mod common;

use common::site;
use pantler_rig::{eventually, undisturbed};
use pantler_web::audit::Audit;
use pantler_web::load::{Plan, Popularity, Random, Sizes, name};
use rustix::fs::{Advice, fadvise};
use std::fs::File;

const PLAN: Plan = Plan { files: 300, sizes: Sizes::Surge, seed: 1 };
const REQUESTS: u32 = 3000;
const WARM_UP: u32 = 500;
const BETWEEN_LOOKS: u32 = 50;

#[test]
fn who_keeps_believes_what_is_true_from_the_first_request_to_the_last() {
    undisturbed(|| {
        let site = site(|options| options.model.bytes = 2 << 20);
        PLAN.make(site.folder.path()).unwrap();
        rustix::fs::syncfs(File::open(site.folder.path()).unwrap()).unwrap();
        for number in 0..PLAN.files as usize {
            fadvise(File::open(site.path(&name(number))).unwrap(), 0, None, Advice::DontNeed).unwrap();
        }
        let popularity = Popularity::new(PLAN.files, 1.0, PLAN.seed);
        let look = || {
            let mut audit = Audit::default();
            for (file, share) in popularity.shares() {
                audit.look(site.server.site(), &name(file as usize), share).unwrap();
            }
            audit
        };
        assert_eq!(look().overlap(), 1.0, "nothing is cached, and nothing believed to be");
        let mut random = Random::new(7);
        let mut series = Vec::new();
        for request in 1..=REQUESTS {
            let file = popularity.draw(&mut random) as usize;
            assert_eq!(site.get(&format!("/{}", name(file))).status, 200);
            if request % BETWEEN_LOOKS == 0 {
                series.push((request, look()));
            }
        }
        // One read, and what it made leave, may be under way at each look.
        for (request, audit) in series.iter().filter(|(request, _)| *request > WARM_UP) {
            let shares = [audit.requests_share(), audit.pages_share(), audit.overlap()];
            assert!(shares.iter().all(|share| *share >= 0.98), "after {request} requests: {shares:?}");
        }
        eventually("all that was done is noted", || look().overlap() == 1.0);
        let numbers = site.server.site().desk.metrics.numbers();
        let number = |name: &str| numbers.iter().find(|(other, _)| *other == name).unwrap().1;
        assert!(number("let_go_bytes") > 4 << 20, "hardly anything had to leave: {numbers:?}");
    });
}
