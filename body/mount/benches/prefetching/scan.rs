//! A cold file read from start to end, with and without lookahead, beside the file system below.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use pantler_mount::{Lookahead, Mount, MountOptions};

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
    println!("a cold file of {} MiB, MB/s, best of {}", SCAN_BYTES >> 20, rounds());
    println!("{:<28}{:>10}{:>10}", "", "8 KiB", "128 KiB");
    row("file system", |size| {
        let file = File::open(origin.join("f"))?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        read(&origin.join("f"), size)
    })?;
    let schemes = [
        (Lookahead::None, 1),
        (Lookahead::Streams, 1),
        (Lookahead::Streams, 2),
        (Lookahead::Streams, 4),
        (Lookahead::Streams, 8),
        (Lookahead::W2r, 8),
        (Lookahead::Streams, 16),
        (Lookahead::Streams, 32),
        (Lookahead::SaW2r, 8),
        (Lookahead::Obl, 8),
        (Lookahead::Obl2, 8),
    ];
    for (lookahead, window) in schemes {
        row(&format!("mount, {lookahead}, window {window}"), |size| {
            let mut options = MountOptions::new(&origin, &point);
            (options.lookahead, options.window) = (lookahead, window);
            options.cache_bytes = 2 * SCAN_BYTES as u64;
            let mounted = Mount::new(options)?.spawn()?;
            let rate = read(&point.join("f"), size);
            mounted.unmount()?;
            rate
        })?;
    }
    Ok(())
}

fn row(name: &str, run: impl Fn(usize) -> Outcome<f64>) -> Outcome<()> {
    let mut best = [0.0f64; 2];
    for _ in 0..rounds() {
        for (best, size) in best.iter_mut().zip([8 << 10, 128 << 10]) {
            *best = best.max(run(size)?);
        }
    }
    println!("{name:<28}{:>10.0}{:>10.0}", best[0], best[1]);
    Ok(())
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
