//! Many ranges at once from a real server of S3, s3s-fs: through mounts, and straight from it by
//! the crate `object_store`, in turns of one run.
//!
//! `cargo xtask bench-stores`, which installs the server. Every byte is compared with what was
//! stored. What the server does is told by two: requests by the mounts, and bytes that it read from
//! its files by the kernel. Ends with a failure where bytes differ, where what is cached is asked
//! for again, and where more is read than was asked for.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use object_store::aws::AmazonS3Builder;
use object_store::{ObjectStore, ObjectStoreExt};
use pantler_rig::{Ready, Server};
use tokio::runtime::Runtime;

#[path = "../../benches/environment.rs"]
mod environment;
#[path = "../tests/stores/place.rs"]
#[allow(dead_code, reason = "tests need more of it")]
mod place;

use place::{Place, SECRET, can_mount};

const OBJECTS: usize = 8;
const OBJECT_BYTES: usize = 16 << 20;
/// What is asked for at once, a block of a mount.
const RANGE_BYTES: usize = 64 << 10;
const ALL_BYTES: usize = OBJECTS * OBJECT_BYTES;
/// In all mounts together.
const READERS: usize = 16;
const ROUNDS: usize = 5;
/// How much more the server may read than was asked for: it reads whole pages, and a file of
/// properties for each request.
const BESIDE: f64 = 1.03;
/// Of the rate without a mount, this is the least with one.
const SLOWEST: f64 = 0.4;

fn main() -> ExitCode {
    println!("{}", environment::line(None));
    rustls::crypto::ring::default_provider().install_default().expect("it is the first");
    if !can_mount() {
        return ExitCode::SUCCESS;
    }
    let Some(shop) = Shop::open() else { return ExitCode::SUCCESS };
    let ways = [
        ("ranges, no mount", Way::Straight, ReadOrder::Ranges),
        ("ranges, one mount", Way::Mounts(1), ReadOrder::Ranges),
        ("ranges, four mounts", Way::Mounts(4), ReadOrder::Ranges),
        ("objects, no mount", Way::Straight, ReadOrder::Objects),
        ("objects, one mount", Way::Mounts(1), ReadOrder::Objects),
        ("objects, four mounts", Way::Mounts(4), ReadOrder::Objects),
    ];
    let mut rows =
        ways.map(|(name, way, order)| Row { name, way, order, first: Vec::new(), again: Vec::new() });
    for round in 0..ROUNDS {
        // The first one changes, so that other work of the machine hurts all alike.
        for turn in 0..rows.len() {
            let row = &mut rows[(round + turn) % ways.len()];
            row.measure(&shop);
        }
    }
    println!(
        "\n{READERS} readers, {OBJECTS} objects of {} MiB, all of it once; medians, the lowest and the highest.\n",
        OBJECT_BYTES >> 20
    );
    println!("| | MB/s | requests | server read | again, MB/s | requests | server read |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for row in &rows {
        println!("| {} | {} | {} |", row.name, cells(&row.first), cells(&row.again));
    }
    let unmet = unmet(&rows);
    unmet.iter().for_each(|line| println!("\nUNMET: {line}"));
    if unmet.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What all readers together read: all of it, each byte once.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ReadOrder {
    /// In ranges, in no order.
    Ranges,
    /// Each object from its beginning to its end, two readers for each, a half of it each.
    Objects,
}

impl ReadOrder {
    /// What one of the readers reads: objects, and places in them.
    fn of(self, reader: usize) -> Vec<(usize, usize)> {
        let ranges = OBJECT_BYTES / RANGE_BYTES;
        let place = |number: usize| (number / ranges, number % ranges * RANGE_BYTES);
        let all = OBJECTS * ranges;
        let each = all / READERS;
        match self {
            Self::Objects => (reader * each..(reader + 1) * each).map(place).collect(),
            // An odd step goes through all of a power of two.
            Self::Ranges => (reader..all).step_by(READERS).map(|at| place(at * 1_597 % all)).collect(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Straight,
    Mounts(usize),
}

struct Row {
    name: &'static str,
    way: Way,
    order: ReadOrder,
    first: Vec<Pass>,
    /// The same once more, of what is cached by then.
    again: Vec<Pass>,
}

/// Everything read once.
struct Pass {
    rate: f64,
    requests: u64,
    server_bytes: u64,
}

impl Row {
    fn measure(&mut self, shop: &Shop) {
        let Way::Mounts(count) = self.way else {
            self.first.push(shop.straight(self.order));
            return self.again.push(shop.straight(self.order));
        };
        let mounts: Vec<_> = (0..count).map(|_| shop.mount(self.order)).collect();
        self.first.push(shop.through(&mounts, self.order));
        self.again.push(shop.through(&mounts, self.order));
        mounts.iter().for_each(Place::umount);
    }
}

/// The server, and what it has.
struct Shop {
    server: Server,
    runtime: Runtime,
    objects: Vec<Arc<Vec<u8>>>,
}

fn name(object: usize) -> String {
    format!("data/{object}")
}

impl Shop {
    /// `None`, and a line that says why, where there is no server.
    fn open() -> Option<Self> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/servers/bin/s3s-fs");
        let words = |port: u16, folder: &Path| {
            let root = folder.join("root");
            fs::create_dir_all(root.join("box")).unwrap();
            let words = format!(
                "--host 127.0.0.1 --port {port} --access-key me --secret-key {SECRET} {}",
                root.display()
            );
            words.split(' ').map(str::to_owned).collect()
        };
        let server = Server::start(program, "cargo xtask bench-stores", Ready::Listens, words)?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let objects = (0..OBJECTS as u32).map(|object| {
            let number = |at: u32| (at ^ object << 28).wrapping_mul(2_654_435_761);
            Arc::new(
                (0..OBJECT_BYTES as u32 / 4).flat_map(|at| number(at).to_le_bytes()).collect::<Vec<u8>>(),
            )
        });
        let shop = Self { server, runtime, objects: objects.collect() };
        let store = shop.client();
        for (object, bytes) in shop.objects.iter().enumerate() {
            // Stored over S3: of what lies there otherwise the server makes a hash of the whole
            // with each request.
            let bytes = bytes.as_ref().clone();
            shop.runtime.block_on(store.put(&name(object).into(), bytes.into())).unwrap();
        }
        Some(shop)
    }

    fn endpoint(&self) -> String {
        format!("http://{}", self.server.address())
    }

    fn client(&self) -> Arc<dyn ObjectStore> {
        let builder = AmazonS3Builder::new().with_bucket_name("box").with_endpoint(self.endpoint());
        let builder = builder.with_allow_http(true).with_region("us-east-1");
        Arc::new(builder.with_access_key_id("me").with_secret_access_key(SECRET).build().unwrap())
    }

    fn mount(&self, order: ReadOrder) -> Place {
        let place = Place::new();
        let lookahead = if order == ReadOrder::Ranges { "none" } else { "auto" };
        let point = place.point().display().to_string();
        let words = ["mount", "s3://box/data", &point, "--cache", "256M", "--lookahead", lookahead];
        let mut command = place.command(&words);
        command.env("AWS_ENDPOINT", self.endpoint()).env("AWS_ACCESS_KEY_ID", "me");
        let output = command.env("AWS_SECRET_ACCESS_KEY", SECRET).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        place
    }

    fn straight(&self, order: ReadOrder) -> Pass {
        let store = self.client();
        let requests = (ALL_BYTES / RANGE_BYTES) as u64;
        self.pass(
            || requests,
            || {
                let readers = (0..READERS).map(|reader| {
                    let (store, objects) = (Arc::clone(&store), self.objects.clone());
                    self.runtime.spawn(async move {
                        for (object, at) in order.of(reader) {
                            let range = at as u64..(at + RANGE_BYTES) as u64;
                            let bytes = store.get_range(&name(object).into(), range).await.unwrap();
                            assert!(
                                bytes == objects[object][at..at + RANGE_BYTES],
                                "object {object} at {at}"
                            );
                        }
                    })
                });
                for reader in readers.collect::<Vec<_>>() {
                    self.runtime.block_on(reader).unwrap();
                }
            },
        )
    }

    fn through(&self, mounts: &[Place], order: ReadOrder) -> Pass {
        let before: u64 = mounts.iter().map(requests).sum();
        let count = || mounts.iter().map(requests).sum::<u64>() - before;
        self.pass(count, || {
            std::thread::scope(|scope| {
                for reader in 0..READERS {
                    scope.spawn(move || {
                        // Neighbours have one mount, so that none looks ahead at blocks of others.
                        let point = mounts[reader * mounts.len() / READERS].point();
                        let files =
                            (0..OBJECTS).map(|object| File::open(point.join(object.to_string())).unwrap());
                        let files: Vec<File> = files.collect();
                        let mut bytes = vec![0; RANGE_BYTES];
                        for (object, at) in order.of(reader) {
                            files[object].read_exact_at(&mut bytes, at as u64).unwrap();
                            assert!(
                                bytes == self.objects[object][at..at + RANGE_BYTES],
                                "object {object} at {at}"
                            );
                        }
                    });
                }
            });
        })
    }

    fn pass(&self, requests: impl FnOnce() -> u64, work: impl FnOnce()) -> Pass {
        let (before, start) = (self.server_bytes(), Instant::now());
        work();
        let rate = ALL_BYTES as f64 / 1e6 / start.elapsed().as_secs_f64();
        Pass { rate, requests: requests(), server_bytes: self.server_bytes() - before }
    }

    /// What the server read from files so far.
    fn server_bytes(&self) -> u64 {
        let path = format!("/proc/{}/io", self.server.pid().as_raw_nonzero());
        let text = fs::read_to_string(path).unwrap();
        text.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
    }
}

/// What a mount asked its origin for so far.
fn requests(place: &Place) -> u64 {
    let output = place.command(&["stat", "--json"]).output().unwrap();
    let stat: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    stat["body_counters"]["origin_reads"].as_u64().unwrap()
}

/// The value in the middle, and those at the ends.
fn spread(passes: &[Pass], of: impl Fn(&Pass) -> f64) -> [f64; 3] {
    let mut values: Vec<f64> = passes.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    [values[values.len() / 2], values[0], values[values.len() - 1]]
}

fn cells(passes: &[Pass]) -> String {
    let [rate, lowest, highest] = spread(passes, |pass| pass.rate);
    let [requests, ..] = spread(passes, |pass| pass.requests as f64);
    let [bytes, ..] = spread(passes, |pass| pass.server_bytes as f64 / 1e6);
    format!("{rate:.0} ({lowest:.0} to {highest:.0}) | {requests:.0} | {bytes:.1} MB")
}

/// What does not hold.
fn unmet(rows: &[Row]) -> Vec<String> {
    let mut unmet = Vec::new();
    for row in rows.iter().filter(|row| row.way != Way::Straight) {
        let most = ALL_BYTES as f64 * BESIDE;
        if row.first.iter().any(|pass| pass.server_bytes as f64 > most) {
            unmet.push(format!("{}: the server read more than was asked for", row.name));
        }
        if row.again.iter().any(|pass| pass.requests > 0) {
            unmet.push(format!("{}: what is cached was asked for again", row.name));
        }
        let straight = rows.iter().find(|other| other.way == Way::Straight && other.order == row.order);
        let straight = spread(&straight.expect("one for each order").first, |pass| pass.rate)[0];
        let rate = spread(&row.first, |pass| pass.rate)[0];
        if rate < SLOWEST * straight {
            unmet.push(format!("{}: {rate:.0} MB/s, {straight:.0} without a mount", row.name));
        }
    }
    unmet
}
