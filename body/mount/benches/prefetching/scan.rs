//! A cold file read from start to end, with and without lookahead, beside the file system below.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use pantler_mount::{Keeper, Lookahead, Mount, MountOptions};

use crate::{Outcome, folder, rounds};

const SCAN_BYTES: usize = 128 << 20;

pub fn scan() -> Outcome<()> {
    let folder = folder()?;
    let (origin, point) = (folder.path().join("origin"), folder.path().join("mnt"));
    std::fs::create_dir(&origin)?;
    std::fs::create_dir(&point)?;
    let data: Vec<u8> = (0..SCAN_BYTES).map(|at| (at / 4096) as u8).collect();
    std::fs::write(origin.join("f"), &data)?;
    drop(data);
    File::open(origin.join("f"))?.sync_all()?;
    let schemes = [
        (Lookahead::None, 1),
        (Lookahead::Streams, 1),
        (Lookahead::Streams, 2),
        (Lookahead::Streams, 4),
        (Lookahead::Streams, 8),
        (Lookahead::Streams, 16),
        (Lookahead::Streams, 32),
        (Lookahead::W2r, 8),
        (Lookahead::SaW2r, 8),
        (Lookahead::Obl, 8),
        (Lookahead::Obl2, 8),
    ];
    let name = |(lookahead, window)| format!("mount, {lookahead}, window {window}");
    let names = ["file system".to_owned()].into_iter().chain(schemes.map(name));
    let mut rows: Vec<(String, [Vec<f64>; 2])> = names.map(|name| (name, Default::default())).collect();
    // All in turns, so that other work on the machine slows all alike.
    for _ in 0..rounds() {
        for (at, size) in [8 << 10, 128 << 10].into_iter().enumerate() {
            let file = File::open(origin.join("f"))?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
            rows[0].1[at].push(read(&origin.join("f"), size)?);
            for ((_, rates), (lookahead, window)) in rows[1..].iter_mut().zip(schemes) {
                let mut options = MountOptions::new(&origin, &point);
                (options.lookahead, options.window) = (lookahead, window);
                options.frames = Keeper::Own;
                options.cache_bytes = 2 * SCAN_BYTES as u64;
                let mounted = Mount::new(options)?.spawn()?;
                rates[at].push(read(&point.join("f"), size)?);
                mounted.unmount()?;
            }
        }
    }
    println!("a cold file of {} MiB: rates beside no lookahead, in {} rounds", SCAN_BYTES >> 20, rounds());
    println!("| | 8 KiB reads | 128 KiB reads |\n| --- | ---: | ---: |");
    let base = rows[1].1.clone();
    for (name, rates) in rows {
        let cells = [0, 1].map(|at| ratios(&rates[at], &base[at]));
        println!("| {name} | {} | {} |", cells[0], cells[1]);
    }
    Ok(())
}

/// The median of the ratios of each round, with the lowest and the highest.
fn ratios(rates: &[f64], base: &[f64]) -> String {
    let mut all: Vec<f64> = rates.iter().zip(base).map(|(rate, base)| rate / base).collect();
    all.sort_by(f64::total_cmp);
    format!("{:.2} ({:.2} to {:.2})", all[all.len() / 2], all[0], all[all.len() - 1])
}

/// MB/s of reading a file from start to end.
fn read(path: &Path, size: usize) -> Outcome<f64> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; size];
    let (start, mut total) = (Instant::now(), 0);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => total += count,
        }
    }
    Ok(total as f64 / start.elapsed().as_secs_f64() / 1e6)
}
