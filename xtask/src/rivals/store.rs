//! An object store: s3s-fs, with an epoch's objects, and what mounts it.

use anyhow::{Context, Result, bail};
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::arms::Rival;
use super::rows::Row;
use crate::demo::Interrupt;
use crate::shell;
use crate::stores;

/// What the store has.
pub const OBJECTS: u64 = 100;
pub const OBJECT_BYTES: u64 = 1 << 20;
const BUCKET: &str = "box";
const ACCESS_KEY: &str = "rivals";
/// Of a store that this machine alone reaches, as long as it runs.
const SECRET_KEY: &str = "of-the-loopback";
const PORT: u16 = 9394;
const READY_MAX: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

/// A server that ends when it goes out of scope.
pub struct Store {
    server: Child,
    folder: PathBuf,
}

impl Store {
    /// Starts the server over a folder, and stores the objects in it.
    pub fn open(folder: &Path, interrupt: &Interrupt) -> Result<Store> {
        let program = stores::server()?;
        let root = folder.join("root");
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(root.join(BUCKET))?;
        let words = ["--host", "127.0.0.1", "--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY];
        let mut command = Command::new(program);
        command.args(words).args(["--port", &PORT.to_string()]).arg(root);
        let log = fs::File::create(folder.join("log"))?;
        let server = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
        let mut store = Store { server: server.context("cannot start s3s-fs")?, folder: folder.to_owned() };
        store.wait(interrupt)?;
        store.fill()?;
        Ok(store)
    }

    fn wait(&mut self, interrupt: &Interrupt) -> Result<()> {
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", PORT)).is_err() {
            interrupt.check()?;
            if self.server.try_wait()?.is_some() || start.elapsed() > READY_MAX {
                bail!("s3s-fs does not listen at port {PORT}: {}", self.folder.join("log").display());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Stores the objects over S3: of what lies there otherwise the server makes a hash of the
    /// whole with each request.
    fn fill(&self) -> Result<()> {
        let objects = self.folder.join("objects");
        fs::create_dir_all(&objects)?;
        for number in 0..OBJECTS {
            let words = (0..OBJECT_BYTES / 8).flat_map(|at| (number << 32 | at).to_le_bytes());
            fs::write(objects.join(number.to_string()), words.collect::<Vec<u8>>())?;
        }
        let bucket = format!(":s3:{BUCKET}");
        let words = ["rclone", "copy", "--quiet", &objects.display().to_string(), &bucket].map(str::to_owned);
        let mut command = Command::new("env");
        command.args(environment()).args(words);
        shell::run_command(command)?;
        Ok(fs::remove_dir_all(objects)?)
    }

    /// Words that mount the store, and stay in the foreground.
    pub fn mounting(&self, row: &Row, rival: Rival, pantler: &Path, through: &Path) -> Result<Vec<String>> {
        let (budget, through) = (row.budget.to_string(), through.display().to_string());
        let mut words = vec!["env".to_owned()];
        words.extend(environment());
        let more: Vec<String> = match rival {
            Rival::S3fs => {
                // Where neither this nor a folder for a cache is named, the kernel's cache is all.
                let options = format!("url=http://127.0.0.1:{PORT},use_path_request_style");
                ["s3fs", BUCKET, &through, "-f", "-o", &options].map(str::to_owned).into()
            }
            Rival::Rclone => {
                let cache = self.folder.join("rclone");
                let _ = fs::remove_dir_all(&cache);
                let bucket = format!(":s3:{BUCKET}");
                let words = ["rclone", "mount", &bucket, &through, "--read-only", "--vfs-cache-mode", "full"];
                let size = [
                    "--vfs-cache-max-size",
                    &format!("{budget}B"),
                    "--vfs-cache-poll-interval",
                    "1s",
                    "--cache-dir",
                ];
                let cache = cache.display().to_string();
                words.iter().chain(&size).copied().chain([cache.as_str()]).map(str::to_owned).collect()
            }
            _ => {
                let (pantler, bucket) = (pantler.display().to_string(), format!("s3://{BUCKET}"));
                let words = [&pantler, "mount", "--foreground", &bucket, &through, "--cache", &budget];
                words.into_iter().chain(row.mounting(rival)).map(str::to_owned).collect()
            }
        };
        words.extend(more);
        Ok(words)
    }

    /// What the server read from its files so far, whatever asked for it.
    pub fn read_bytes(&self) -> Result<u64> {
        let text = fs::read_to_string(format!("/proc/{}/io", self.server.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("rchar: "));
        Ok(line.context("no rchar in /proc/PID/io")?.parse()?)
    }
}

/// Words for `env`, by which all clients find the store; rclone refuses to begin where certificates
/// of AWS are a machine's own.
fn environment() -> Vec<String> {
    let endpoint = format!("http://127.0.0.1:{PORT}");
    let values = [
        ("AWS_ENDPOINT", endpoint.as_str()),
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
        ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
        ("RCLONE_CONFIG", "/dev/null"),
        ("RCLONE_S3_PROVIDER", "Other"),
        ("RCLONE_S3_ENDPOINT", &endpoint),
        ("RCLONE_S3_ACCESS_KEY_ID", ACCESS_KEY),
        ("RCLONE_S3_SECRET_ACCESS_KEY", SECRET_KEY),
    ];
    let values = values.map(|(name, value)| format!("{name}={value}"));
    ["--unset=AWS_CA_BUNDLE".to_owned()].into_iter().chain(values).collect()
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
