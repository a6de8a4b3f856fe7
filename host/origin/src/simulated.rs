//! A disk that is slower than the real one: what it gives is *simulated latency*, for measurements
//! and tests.
//!
//! ```text
//!   read --> real read, at once --> the one arm: waits for those before it, then
//!                                   seek(distance) + half a turn, unless it goes on where the last read ended, + bytes / rate
//! ```
//!
//! Reads are served as they came. Seeks take `min + (max − min) · √(distance / size)` with `min =
//! seek / 8`; of two random places √distance is 8/15 on average, so that `seek` is the average that
//! data sheets name. Places are those of the real file system, as far as it tells.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::{OpenFile, Source};

/// What a simulated disk is like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiskModel {
    /// The average seek.
    pub seek: Duration,
    /// Half a turn: what every read waits that has to seek.
    pub rotation: Duration,
    /// Bytes per second of one long read.
    pub rate: u64,
    /// Bytes of the disk: the longest seek.
    pub size: u64,
}

/// Longest seek or turn that is believed.
const TIME_MAX: Duration = Duration::from_secs(10);

impl FromStr for DiskModel {
    type Err = String;

    /// `seek=MS,transfer=MB/S`, and if wanted `rotation=MS` (half a turn; 0) and `size=GB` (64).
    fn from_str(text: &str) -> Result<Self, String> {
        let (mut seek, mut rotation, mut rate, mut size) = (None, 0.0, None, 64.0);
        for part in text.split(',') {
            let expected = || {
                format!(
                    "disk {part:?}: expected seek=MS,transfer=MB/S, and if wanted rotation=MS and size=GB"
                )
            };
            let (key, value) = part.split_once('=').ok_or_else(expected)?;
            let value: f64 = value.parse().map_err(|_| expected())?;
            let bounds = if matches!(key, "seek" | "rotation") { 0.0..=1e4 } else { 0.001..=1e6 };
            if !bounds.contains(&value) {
                return Err(expected());
            }
            match key {
                "seek" => seek = Some(value),
                "rotation" => rotation = value,
                "transfer" => rate = Some(value),
                "size" => size = value,
                _ => return Err(expected()),
            }
        }
        let milliseconds = |value: f64| Duration::from_secs_f64(value / 1e3).min(TIME_MAX);
        match (seek, rate) {
            (Some(seek), Some(rate)) => Ok(Self {
                seek: milliseconds(seek),
                rotation: milliseconds(rotation),
                rate: (rate * 1e6) as u64,
                size: (size * 1e9) as u64,
            }),
            _ => Err(format!("disk {text:?}: expected at least seek=MS,transfer=MB/S")),
        }
    }
}

impl fmt::Display for DiskModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seek, rotation) = (self.seek.as_secs_f64() * 1e3, self.rotation.as_secs_f64() * 1e3);
        let (rate, size) = (self.rate as f64 / 1e6, self.size as f64 / 1e9);
        write!(f, "seek={seek},rotation={rotation},transfer={rate},size={size}")
    }
}

impl DiskModel {
    /// How long a read of `bytes` bytes at `position` takes when the arm stands at `arm`.
    pub fn time(&self, arm: u64, position: u64, bytes: u64) -> Duration {
        let transfer = Duration::from_secs_f64(bytes as f64 / self.rate.max(1) as f64);
        if arm == position {
            return transfer;
        }
        let share = (arm.abs_diff(position) as f64 / self.size.max(1) as f64).min(1.0).sqrt();
        let least = self.seek.as_secs_f64() / 8.0;
        let most = least + (self.seek.as_secs_f64() - least) * 15.0 / 8.0;
        Duration::from_secs_f64(least + (most - least) * share) + self.rotation + transfer
    }
}

/// A disk that all files of an origin are on.
#[derive(Debug)]
pub struct SimulatedDisk {
    model: DiskModel,
    arm: Mutex<Arm>,
}

#[derive(Debug)]
struct Arm {
    position: u64,
    /// When it will have served what has come so far.
    free: Instant,
}

impl SimulatedDisk {
    /// An idle disk.
    pub fn new(model: DiskModel) -> Self {
        Self { model, arm: Mutex::new(Arm { position: 0, free: Instant::now() }) }
    }

    /// The bytes of a file, as slowly as this disk would give them.
    pub fn source(self: &Arc<Self>, file: Arc<OpenFile>) -> Arc<dyn Source> {
        Arc::new(Slowed { disk: Arc::clone(self), file, position: OnceLock::new() })
    }

    /// Waits for the arm.
    fn serve(&self, position: u64, bytes: u64) {
        let until = {
            // Nothing panics in here.
            let mut arm = self.arm.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let begin = arm.free.max(Instant::now());
            arm.free = begin + self.model.time(arm.position, position, bytes);
            arm.position = position + bytes;
            arm.free
        };
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
    }
}

struct Slowed {
    disk: Arc<SimulatedDisk>,
    file: Arc<OpenFile>,
    position: OnceLock<u64>,
}

impl Source for Slowed {
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let count = self.file.read_at(offset, buffers)?;
        let start = *self.position.get_or_init(|| self.file.position().unwrap_or(0));
        self.disk.serve(start.saturating_add(offset), count as u64);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_read_and_nonsense_is_refused() {
        let model: DiskModel = "seek=8,transfer=100".parse().unwrap();
        assert_eq!(model.to_string(), "seek=8,rotation=0,transfer=100,size=64");
        assert_eq!(model.to_string().parse(), Ok(model));
        for bad in
            ["", "seek=8", "seek=-1,transfer=1", "seek=8,transfer=0", "seek=NaN,transfer=1", "x=1", "seek"]
        {
            assert!(bad.parse::<DiskModel>().unwrap_err().contains("expected"), "{bad}");
        }
    }

    #[test]
    fn far_is_slower_than_near_and_on_is_fastest() {
        let model: DiskModel = "seek=8,rotation=4,transfer=100,size=1".parse().unwrap();
        let time = |to| model.time(0, to, 1_000_000).as_secs_f64() * 1e3;
        assert_eq!(time(0), 10.0);
        assert!((15.0..15.2).contains(&time(1_000)), "{}", time(1_000));
        assert!((27.0..29.0).contains(&time(1_000_000_000)), "{}", time(1_000_000_000));
        assert_eq!(time(u64::MAX), time(1_000_000_000));
    }
}
