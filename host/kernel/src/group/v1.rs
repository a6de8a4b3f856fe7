//! Control groups v1: one group in the hierarchy `memory`, one in `blkio` if there is one.

use std::fs;
use std::path::{Path, PathBuf};

use super::{RunGroup, Throttle, Usage, evacuate_and_remove, read, read_number, stat_field, write};
use crate::KernelError;
use crate::devices::{self, Device};
use crate::memory::{self, Gauge};

/// The groups of one run on a v1 machine.
#[derive(Debug)]
pub struct V1 {
    memory: PathBuf,
    blkio: Option<PathBuf>,
}

impl V1 {
    /// Makes the groups below our own in `memory` and `blkio`, so that limits above us hold for the
    /// run too.
    ///
    /// # Errors
    /// The folder that could not be made.
    pub fn create(memory: &Path, blkio: Option<&Path>, name: &str) -> Result<V1, KernelError> {
        let memory = memory.join(name);
        fs::create_dir(&memory).map_err(|error| KernelError::file("create", &memory, error))?;
        let blkio = blkio.map(|own| own.join(name));
        if let Some(folder) = &blkio
            && let Err(error) = fs::create_dir(folder)
        {
            let _ = fs::remove_dir(&memory);
            return Err(KernelError::file("create", folder, error));
        }
        let group = V1 { memory, blkio };
        group.start_counting();
        Ok(group)
    }

    /// The kernel counts a device's reads by group only once the device has had a limit somewhere:
    /// set one and lift it.
    fn start_counting(&self) {
        let Some(folder) = &self.blkio else { return };
        let Ok(devices) = fs::read_dir("/sys/block") else { return };
        for device in devices.flatten() {
            let has_size =
                fs::read_to_string(device.path().join("size")).is_ok_and(|size| size.trim() != "0");
            let Ok(number) = fs::read_to_string(device.path().join("dev")) else { continue };
            if has_size {
                // Reads of a device without counters are not told.
                let limit = folder.join("blkio.throttle.read_bps_device");
                let _ = fs::write(&limit, format!("{} {}", number.trim(), 1u64 << 60));
                let _ = fs::write(&limit, format!("{} 0", number.trim()));
            }
        }
    }

    fn procs(&self) -> Vec<PathBuf> {
        std::iter::once(&self.memory).chain(&self.blkio).map(|folder| folder.join("cgroup.procs")).collect()
    }
}

impl RunGroup for V1 {
    fn version(&self) -> &'static str {
        "v1"
    }

    fn program_files(&self) -> Vec<PathBuf> {
        self.procs()
    }

    fn host_files(&self) -> Vec<PathBuf> {
        self.procs()
    }

    fn memory_path(&self) -> &Path {
        &self.memory
    }

    fn io_path(&self) -> Option<&Path> {
        self.blkio.as_deref()
    }

    fn usage(&self) -> Result<Usage, KernelError> {
        let total = read_number(&self.memory.join("memory.usage_in_bytes"))?;
        let stat = read(&self.memory.join("memory.stat"))?;
        let field = |word| stat_field(&stat, word).unwrap_or(0);
        // `cache` counts shared memory too, which no fadvise can drop.
        let file = field("total_cache").saturating_sub(field("total_shmem"));
        Ok(Usage { total, file, other: total.saturating_sub(file) })
    }

    fn gauge(&self, total: Option<u64>) -> Gauge {
        let mut gauge = memory::V1.gauge(self.memory.ancestors().skip(1));
        gauge.0.extend(total.map(|bytes| memory::V1.limited(&self.memory, bytes)));
        gauge
    }

    fn peak(&self) -> Option<u64> {
        read_number(&self.memory.join("memory.max_usage_in_bytes")).ok()
    }

    fn device_read_bytes(&self) -> Option<u64> {
        let folder = self.blkio.as_ref()?;
        let text = read(&folder.join("blkio.throttle.io_service_bytes")).ok()?;
        let read = |line: &str| {
            let (device, bytes) = line.split_once(" Read ")?;
            Some((Device::parse(device)?, bytes.trim().parse().ok()?))
        };
        Some(devices::read_once(&text.lines().filter_map(read).collect::<Vec<_>>()))
    }

    // v1 has no soft bound that acts at once, and a hard one kills. So the bound exists only while
    // this call reclaims: the kernel shrinks the group to fit (or answers EBUSY when it cannot),
    // then the bound is lifted. If we die in between, the group keeps a bound that its files fit
    // under, and the next start removes it.
    fn enforce(&self, bytes: u64) -> Result<(), KernelError> {
        let limit = self.memory.join("memory.limit_in_bytes");
        if read_number(&self.memory.join("memory.usage_in_bytes"))? <= bytes {
            return Ok(());
        }
        let shrunk = fs::write(&limit, bytes.to_string());
        write(&limit, "-1")?;
        match shrunk {
            Err(error) if error.raw_os_error() != Some(libc::EBUSY) => {
                Err(KernelError::file("write", limit, error))
            }
            _ => Ok(()),
        }
    }

    fn hard_limit(&self, bytes: Option<u64>) -> Result<(), KernelError> {
        let value = bytes.map_or("-1".to_owned(), |bytes| bytes.to_string());
        write(&self.memory.join("memory.limit_in_bytes"), &value)
    }

    fn throttle(&self, throttle: Throttle) -> Result<(), KernelError> {
        let Some(folder) = &self.blkio else {
            return Err(KernelError::Missing {
                what: "the blkio control group",
                remedy: "mount it".to_owned(),
            });
        };
        let Throttle { major, minor, reads_per_s, read_bytes_per_s } = throttle;
        write(&folder.join("blkio.throttle.read_iops_device"), &format!("{major}:{minor} {reads_per_s}"))?;
        write(&folder.join("blkio.throttle.read_bps_device"), &format!("{major}:{minor} {read_bytes_per_s}"))
    }

    fn remove(&self) -> Result<(), KernelError> {
        if let Some(folder) = &self.blkio {
            evacuate_and_remove(folder)?;
        }
        evacuate_and_remove(&self.memory)
    }
}
