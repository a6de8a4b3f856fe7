//! Several clients in network namespaces of their own with one tier server: hits, demotions and
//! bytes on the wire are what the simulator says.

use std::io::{self, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pantler_cache::{Cache, Options, Request};
use pantler_origin::Source;
use pantler_policy::Draws;
use pantler_rig::{Net, command_bytes};
use pantler_sim::tiers::{Protocol, UlcClients};
use pantler_steward::placement::{Client, Order, Passing, Sizes, Step, Tier as Distance};
use pantler_steward::{FileId, OwnerId};
use pantler_tier::{RemoteOptions, RemoteTier, Seal, Stem, Tier, TierPlace};
use pantler_tier_server::{ServeOptions, Server};

const BLOCK: usize = 64 << 10;
const CLIENTS: usize = 3;
const FRAMES: u32 = 40;
const REFERENCES: usize = 4000;

struct Origin(AtomicU64);

impl Source for Origin {
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        for (index, buffer) in (offset / BLOCK as u64..).zip(buffers.iter_mut()) {
            self.0.fetch_add(1, Ordering::SeqCst);
            buffer.fill(index as u8);
        }
        Ok(buffers.iter().map(|buffer| buffer.len()).sum())
    }
}

fn cache(tier: Arc<dyn Tier>) -> Arc<Cache> {
    let (spare, demotions) = (2, 8);
    let blocks = u64::from(FRAMES + 1 + spare + demotions);
    let options = Options {
        cache_bytes: blocks * BLOCK as u64 + u64::from(FRAMES + 1) * pantler_cache::FRAME_METADATA_BYTES,
        block_bytes: BLOCK,
        spare,
        demotions,
        passing: Some(1),
        ..Options::default()
    };
    assert_eq!(options.frames().unwrap(), FRAMES + 1);
    let cache = Arc::new(Cache::with_tiers(options, vec![tier]).unwrap());
    let stem = Stem::new(None, BLOCK as u32, [b"file".as_slice()]);
    cache.share(FileId(1), Some(stem));
    let served = Arc::clone(&cache);
    std::thread::spawn(move || served.serve_tier(0));
    cache
}

#[test]
fn clients_in_namespaces_do_as_in_the_simulator() {
    let Some(net) = Net::new(CLIENTS) else { return };
    let stop = Arc::new(AtomicBool::new(false));
    let server =
        net.within(0, || Server::bind(&ServeOptions::new("0.0.0.0:0".parse().unwrap(), 8 << 20)).unwrap());
    let port = server.address().unwrap().port();
    let stopped = Arc::clone(&stop);
    let serving = std::thread::spawn(move || server.run(&stopped).unwrap());
    let connect = |number: usize| {
        net.within(number + 1, || {
            let nodes = vec![(net.server(number + 1), port)];
            let tier = RemoteTier::new(RemoteOptions {
                place: TierPlace::Remote { nodes, tls: false, cluster: false, user: None },
                bytes: 1 << 30,
                timeout: Duration::from_secs(5),
                password: None,
                authority: None,
                client: format!("client-{number}"),
                seal: Seal::Checksum,
            });
            let tier = tier.unwrap();
            tier.heal().unwrap();
            tier
        })
    };
    let tiers: Vec<Arc<RemoteTier>> = (0..CLIENTS).map(|number| Arc::new(connect(number))).collect();
    let frames = tiers[0].frames(BLOCK);
    let caches: Vec<Arc<Cache>> = tiers.iter().map(|tier| cache(Arc::clone(tier) as Arc<dyn Tier>)).collect();
    // As the caches have it: one frame is for what passes.
    let sizes = Sizes::new(&[FRAMES + 1, frames]).unwrap();
    let mut twin = UlcClients::with_passing(&sizes, CLIENTS as u16, Order::Access, Passing::Frames(1));
    let (origin, mut steps) = (Arc::new(Origin(AtomicU64::new(0))), Vec::new());
    let (mut near, mut below, mut missed, mut placed) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut last = [u64::MAX; CLIENTS];
    let mut draws = Draws::new(5);
    let before = net.traffic();
    for _ in 0..REFERENCES {
        let client = draws.below(CLIENTS as u64) as usize;
        let block = match draws.below(2) {
            0 => draws.below(100),
            _ => draws.below(30) + 100 * (client as u64 + 1),
        };
        if std::mem::replace(&mut last[client], block) == block {
            continue;
        }
        let source: Arc<dyn Source> = Arc::clone(&origin) as _;
        let (offset, length, size) = (block * BLOCK as u64, BLOCK, 1 << 40);
        let request = Request {
            owner: OwnerId(1),
            file: FileId(1),
            offset,
            length,
            size,
            source: &source,
            kernel: None,
        };
        caches[client]
            .read(&request, |bytes| assert!(bytes.iter().all(|byte| *byte == block as u8)))
            .unwrap();
        assert!(caches[client].drain_tiers(Duration::from_secs(10)));
        let retrieval = twin.reference(Client(client as u16), block as u32, &mut steps);
        match retrieval.from {
            Distance(1) => near += 1,
            Distance(2) => below += 1,
            _ => missed += 1,
        }
        placed += u64::from(retrieval.from > Distance(2) && retrieval.keep == Distance(2));
    }
    let wire = net.traffic().since(&before);
    let demoted =
        steps.iter().filter(|step| matches!(step, Step::Demote { from: Distance(1), .. })).count() as u64;
    let stats: Vec<_> = caches.iter().map(|cache| cache.tier_stats().remove(0)).collect();
    let sum = |of: fn(&pantler_control::TierStat) -> u64| stats.iter().map(of).sum::<u64>();
    let found_near: u64 =
        caches.iter().map(|cache| cache.with_steward(|steward| steward.totals()).hits).sum();
    let moved = (below + demoted + placed) * BLOCK as u64;
    println!("{CLIENTS} clients of {FRAMES} frames, {frames} frames at the server; found, then expected:");
    println!("hits in tier 1: {found_near}, {near}; in tier 2: {}, {below}", sum(|stat| stat.hits));
    println!("misses: {}, {missed}", origin.0.load(Ordering::SeqCst));
    println!(
        "demotions: {}, {demoted}; placements: {}, {placed}",
        sum(|stat| stat.demotions),
        sum(|stat| stat.placements)
    );
    println!(
        "bytes of blocks on the wire: {}, {moved}; said: {}; all bytes: {wire:?}",
        sum(|stat| stat.read_bytes + stat.written_bytes),
        wire.said()
    );
    let found = [
        found_near,
        sum(|stat| stat.hits),
        origin.0.load(Ordering::SeqCst),
        sum(|stat| stat.demotions),
        sum(|stat| stat.placements),
    ];
    for (found, expected) in found.into_iter().zip([near, below, missed, demoted, placed]) {
        assert!(found.abs_diff(expected) <= expected / 100, "{found} instead of {expected}");
    }
    let carried = sum(|stat| stat.read_bytes + stat.written_bytes);
    assert!(carried.abs_diff(moved) <= moved / 100);
    assert!(wire.said().abs_diff(moved) <= moved / 100);
    // What is said beside blocks: envelopes, the words of requests, which each carry a key, and
    // notices.
    let key = Stem::new(None, BLOCK as u32, [b"file".as_slice()]).block(0x10).to_string().len();
    let (command, sealed) = ("PANTLER.SET".len(), BLOCK + Seal::Checksum.envelope_bytes());
    let ask = command_bytes(&[command, key, "TAKE".len()]);
    let block = command_bytes(&[sealed]) - "*1\r\n".len();
    let put = command_bytes(&[command, key, sealed, "DEMOTE".len(), "1000".len()]) + "+OK\r\n".len();
    let notice = ">4\r\n$7\r\npantler\r\n:1\r\n:0\r\n".len() + command_bytes(&[key]);
    let [_, below, missed, demoted, placed] = found;
    let account = (below + missed) * ask as u64
        + below * block as u64
        + (demoted + placed) * put as u64
        + sum(|stat| stat.notices) * notice as u64;
    println!("an account of them: {account}");
    assert!(wire.said().abs_diff(account) <= account / 1000);
    caches.iter().for_each(|cache| cache.stop_tiers());
    stop.store(true, Ordering::Release);
    serving.join().unwrap();
}
