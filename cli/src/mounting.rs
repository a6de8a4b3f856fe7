//! The seam to the mount crate: what a mount is asked to be, on the command line and on its way to
//! the daemon, as JSON.

use anyhow::Result;
use clap::Args;
use pantler_control::{ControlError, Size};
use pantler_mount::{
    Credentials, MountError, MountOptions, Mounted, OwnerBy, Place, StoreAddress, StoreOptions, TierMissing,
    TierOptions,
};
use pantler_steward::Allocation;
use pantler_tier::{Seal, Secret, TierPlace, TierSpec, read_secret, read_secret_file};
use serde::{Deserialize, Serialize};
use serde_with::{As, DisplayFromStr};
use std::fmt::Display;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use crate::explain::DECISIONS_KEPT;
use crate::failure::absent;
use crate::named::named;
use crate::passwords::{PASSWORD, PasswordFiles, refused};
use crate::values;

/// Mount a directory or an object store with a cache of its own.
///
/// Returns once the mount is ready; the cache is served in the background.
#[derive(Debug, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// The directory to cache; or s3://BUCKET/PREFIX, gs://, az:// or http(s)://, which are mounted
    /// read only
    pub origin: PathBuf,
    /// Where to mount it: a directory; its own content is hidden meanwhile
    pub mount_point: PathBuf,
    /// Memory for cached blocks, such as 512M; without it 256M, or half of the memory that limits
    /// allow here
    #[arg(long, value_name = "SIZE|%", value_parser = values::memory, allow_negative_numbers = true)]
    pub cache: Option<Size>,
    /// Bytes in a block: a power of two from 4K to 1M, 64K without it. Files smaller than a block
    /// take only the pages that they have; over tiers a whole block each
    #[arg(long, value_name = "SIZE", value_parser = values::block_size, allow_negative_numbers = true)]
    pub block_size: Option<Size>,
    /// Where cached blocks are: kernel, in the page cache, where a hit does not ask the mount,
    /// which needs root, Linux 6.12 or newer and no tiers; own, in memory of the mount; auto,
    /// kernel where that can be had
    #[arg(long, value_name = "WHERE", default_value = "auto", value_parser = named(values::frames, values::keeper), hide_possible_values = true)]
    pub frames: String,
    /// Reads that wait for the origin at a time, a thread each; one thread more answers what need
    /// not wait. Without it two for each processor, 4 to 16, and up to 16 for an object store
    #[arg(long, value_name = "COUNT", value_parser = |text: &str| values::whole(text, 1..=256_u16))]
    pub threads: Option<u16>,
    /// How frames are shared between owners
    #[arg(long, value_name = "NAME", default_value = "lru-sp", value_parser = named(values::allocations, values::allocation), hide_possible_values = true)]
    #[serde(with = "As::<DisplayFromStr>")]
    pub allocation: Allocation,
    /// How blocks of programs that give no hints are replaced, such as arc or s3-fifo; see `pantler
    /// sim --policy help`. Without it auto, over tiers lru
    #[arg(long, value_name = "POLICY", value_parser = named(values::policies, values::online_text), hide_possible_values = true)]
    pub policy: Option<String>,
    /// What is fetched ahead of a reader: none, obl, obl-2, w2r, sa-w2r, streams, or auto
    /// for what measured best
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = named(values::lookaheads, values::lookahead), hide_possible_values = true)]
    pub lookahead: String,
    /// Threads that fetch ahead, 8 without it; 0 for nothing fetched ahead at all
    #[arg(long, value_name = "COUNT", value_parser = |text: &str| values::whole(text, 0..=256_u16))]
    pub prefetchers: Option<u16>,
    /// What an owner is: process, cgroup, user, or fixed:NAME for all together
    #[arg(long, value_name = "WHAT", default_value = "process", value_parser = named(values::owners, values::owner_by), hide_possible_values = true)]
    pub owner_by: String,
    /// Let other users in; file permissions still decide
    #[arg(long)]
    pub allow_other: bool,
    /// Refuse all changes
    #[arg(long)]
    pub read_only: bool,
    #[command(flatten)]
    pub store: Store,
    #[command(flatten)]
    pub tiers: Tiers,
    /// Say what is mounted as one JSON object
    #[arg(long)]
    #[serde(skip)]
    pub json: bool,
    /// Stay in the foreground until unmounted
    #[arg(long)]
    #[serde(skip)]
    pub foreground: bool,
    /// Be the host in the background
    #[arg(long, hide = true, requires = "foreground")]
    #[serde(skip)]
    pub detached: bool,
}

/// How an object store is dealt with. Credentials stay in their file.
#[derive(Debug, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// Longest wait of a reader for an object store or server, repetitions included, in
    /// milliseconds
    #[arg(id = "origin_timeout", long = "origin-timeout", value_name = "MS", default_value = "30000",
          value_parser = |text: &str| values::whole(text, 10..=600_000_u32))]
    pub timeout_ms: u32,
    /// How often a request is repeated that failed for a reason that may pass, within that wait: a
    /// server that refuses connections uses up 5 in about 2 seconds
    #[arg(id = "origin_retries", long = "origin-retries", value_name = "COUNT", default_value = "5",
          value_parser = |text: &str| values::whole(text, 0..=100_u32))]
    pub retries: u32,
    /// How old what is known of its names may be, in milliseconds
    #[arg(id = "origin_refresh", long = "origin-refresh", value_name = "MS", default_value = "1000",
          value_parser = |text: &str| values::whole(text, 0..=3_600_000_u32))]
    pub refresh_ms: u32,
    /// File with NAME=VALUE lines such as AWS_ACCESS_KEY_ID=..., readable by you alone; without it
    /// the environment
    #[arg(id = "origin_credentials", long = "origin-credentials", value_name = "FILE")]
    pub credentials: Option<PathBuf>,
}

/// Where blocks go that leave the cache. Secrets stay in their files: only where those are travels.
#[derive(Debug, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tiers {
    /// A lower tier, nearest first: ssd:PATH,SIZE or redis://HOST:PORT,SIZE (also rediss:,
    /// redis-cluster:). SIZE of ssd: may be a share of its file system, such as 10%, used or not
    // Read later: the parser would repeat what is refused, and that may hold a password.
    #[arg(long = "tier", value_name = "TIER")]
    pub places: Vec<String>,
    /// When a tier is not there at the start: fail, or go without until it is
    #[arg(long = "tier-missing", value_name = "WHAT", default_value = "fail", value_parser = ["fail", "without"])]
    pub missing: String,
    /// Longest wait of a reader for a tier that does not answer, a server or a disk, in
    /// milliseconds
    #[arg(long = "tier-timeout", value_name = "MS", default_value = "250",
          value_parser = |text: &str| values::whole(text, 1..=60_000_u32))]
    pub timeout_ms: u32,
    /// File with the password of servers, readable by you alone; HOST:PORT=FILE for that server,
    /// and again for others; without it PANTLER_TIER_PASSWORD
    #[arg(long = "tier-password-file", value_name = "[HOST:PORT=]FILE")]
    #[serde(skip)]
    pub password_files: Vec<PathBuf>,
    /// The same, by server.
    #[arg(skip)]
    passwords: PasswordFiles,
    /// File with a secret that all mounts of the tier know, and the tier does not
    #[arg(long = "tier-secret-file", value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// Certificate of the authority to trust with rediss:, in PEM
    #[arg(long = "tier-authority", value_name = "FILE")]
    pub authority: Option<PathBuf>,
    /// Most memory for what is known of blocks in tiers, such as 64M or 1%; without it what limits
    /// of memory leave beside --cache
    #[arg(long = "tier-index", value_name = "SIZE|%", value_parser = values::memory, allow_negative_numbers = true)]
    pub index: Option<Size>,
    /// Name of the origin in tiers, the same on all machines that mount it; without it its device
    /// number
    #[arg(long = "tier-origin", value_name = "NAME")]
    pub origin_name: Option<String>,
}

impl Store {
    /// What is cached: an object store if the origin is the address of one, else a directory.
    pub fn place(&self, origin: &Path) -> Result<Place, ControlError> {
        let Some(address) = address(origin)? else {
            if self.credentials.is_some() {
                let text = "--origin-credentials: expected an object store as origin";
                return Err(ControlError::invalid(text));
            }
            return Ok(Place::from(folder(origin, "origin")?));
        };
        let milliseconds = |count: u32| Duration::from_millis(count.into());
        let mut options = StoreOptions {
            timeout: milliseconds(self.timeout_ms.max(1)),
            retries: self.retries,
            refresh: milliseconds(self.refresh_ms),
            ..StoreOptions::default()
        };
        if let Some(file) = &self.credentials {
            let text = read_secret_file(file).map_err(refused)?;
            let wrong = |what| ControlError::invalid(format!("{}: {what}", file.display()));
            options.credentials = Credentials::parse(&text).map_err(wrong)?;
        }
        Ok(Place::Store(address, options))
    }
}

fn address(origin: &Path) -> Result<Option<StoreAddress>, ControlError> {
    match origin.to_str().map_or(Ok(None), StoreAddress::parse) {
        Ok(Some(store)) if !cfg!(feature = "network") => {
            Err(absent(format_args!("origin {store}"), "network"))
        }
        found => found.map_err(ControlError::invalid),
    }
}

/// What was typed for a tier: where it is, and its size.
fn tier(text: &str) -> Result<(TierPlace, Size), ControlError> {
    let spec = TierSpec::parse(text).map_err(ControlError::invalid)?;
    let size = match &spec.place {
        TierPlace::Ssd(path) => Size::within(&spec.size, || file_system_bytes(path)),
        place if !cfg!(feature = "network") => return Err(absent(format_args!("tier {place}"), "network")),
        _ => spec.size.parse(),
    };
    Ok((spec.place, size.map_err(|error| ControlError::invalid(error.to_string()))?))
}

/// Bytes of the file system that a file is on, or will be: not those that are free, which a tier
/// from before takes part of.
fn file_system_bytes(path: &Path) -> u64 {
    let path = std::path::absolute(path).unwrap_or_default();
    let known = path.ancestors().find_map(|path| rustix::fs::statvfs(path).ok());
    known.map_or(0, |known| known.f_blocks.saturating_mul(known.f_frsize))
}

fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, ControlError> {
    text.parse().map_err(|error: T::Err| ControlError::invalid(error.to_string()))
}

fn absolute(path: &mut Option<PathBuf>) -> Result<(), ControlError> {
    *path = path.as_ref().map(std::path::absolute).transpose()?;
    Ok(())
}

impl Tiers {
    fn resolve(&mut self) -> Result<()> {
        for text in &mut self.places {
            if let (TierPlace::Ssd(path), size) = tier(text)? {
                *text = format!("ssd:{},{size}", std::path::absolute(path)?.display());
            }
        }
        self.passwords = PasswordFiles::new(&self.password_files)?;
        self.passwords.check(&self.places()?)?;
        absolute(&mut self.secret_file)?;
        Ok(absolute(&mut self.authority)?)
    }

    fn places(&self) -> Result<Vec<TierPlace>, ControlError> {
        self.places.iter().map(|text| Ok(tier(text)?.0)).collect()
    }

    /// Whether a server has no password but that of the environment.
    fn needs_environment(&self) -> bool {
        let is_server = |place: &TierPlace| matches!(place, TierPlace::Remote { .. });
        let places = self.places().unwrap_or_default();
        places.iter().any(|place| is_server(place) && !self.passwords.know(place))
    }

    fn options(&self) -> Result<TierOptions, ControlError> {
        if self.places.is_empty() {
            return Ok(TierOptions::default());
        }
        let read = |(server, file): &((String, u16), PathBuf)| {
            read_secret_file(file).map(|password| (server.clone(), password)).map_err(refused)
        };
        let sized = |text: &String| tier(text).map(|(place, size)| (place, size.bytes()));
        Ok(TierOptions {
            places: self.places.iter().map(sized).collect::<Result<_, _>>()?,
            timeout: Duration::from_millis(self.timeout_ms.max(1).into()),
            missing: if self.missing == "without" { TierMissing::Without } else { TierMissing::Fail },
            password: read_secret(self.passwords.all.as_deref(), PASSWORD).map_err(refused)?,
            passwords: self.passwords.each.iter().map(read).collect::<Result<_, _>>()?,
            authority: self.authority.clone(),
            origin_name: self.origin_name.clone(),
            index_bytes_max: self.index.map(Size::bytes),
            seal: seal(self.secret_file.as_deref())?,
        })
    }
}

/// How blocks are protected, by `--tier-secret-file`.
fn seal(secret_file: Option<&Path>) -> Result<Seal, ControlError> {
    let Some(file) = secret_file else { return Ok(Seal::Checksum) };
    Ok(Seal::Encrypted(Secret::new(read_secret_file(file).map_err(refused)?.as_bytes())))
}

impl Mount {
    /// The same, checked and with absolute paths: a daemon stands elsewhere.
    pub fn resolved(mut self) -> Result<Mount> {
        self.tiers.resolve()?;
        absolute(&mut self.store.credentials)?;
        self.origin = match address(&self.origin)? {
            Some(address) => address.to_string().into(),
            None => folder(&self.origin, "origin")?,
        };
        self.mount_point = folder(&self.mount_point, "mount point")?;
        Ok(self)
    }

    /// Whether the environment of the calling command counts, which a daemon does not have.
    pub fn needs_environment(&self) -> bool {
        let is_store = matches!(address(&self.origin), Ok(Some(_)));
        let has_password = std::env::var_os(PASSWORD).is_some_and(|password| !password.is_empty());
        (is_store && self.store.credentials.is_none()) || (has_password && self.tiers.needs_environment())
    }

    pub fn mount(&self) -> Result<Mounted, ControlError> {
        let options = self.options()?;
        pantler_mount::Mount::new(options).and_then(pantler_mount::Mount::spawn).map_err(control_error)
    }

    fn options(&self) -> Result<MountOptions, ControlError> {
        let mut options = MountOptions::new(self.store.place(&self.origin)?, &self.mount_point);
        options.cache_bytes = self.cache.map_or(options.cache_bytes, Size::bytes);
        options.block_bytes = self.block_size.map_or(options.block_bytes, |size| size.bytes() as usize);
        options.frames = parsed(&self.frames)?;
        options.threads = self.threads.map_or_else(|| options.suitable_threads(), usize::from);
        options.allocation = self.allocation;
        options.policy = self.policy.as_deref().map(parsed).transpose()?;
        // The default of the library is what measured best.
        if self.lookahead != "auto" {
            options.lookahead = parsed(&self.lookahead)?;
        }
        options.prefetchers = self.prefetchers.map_or(options.prefetchers, usize::from);
        options.owner_by = self.owner_by.parse::<OwnerBy>().map_err(control_error)?;
        options.allow_other |= self.allow_other;
        options.read_only = self.read_only;
        options.log = DECISIONS_KEPT;
        options.tiers = self.tiers.options()?;
        Ok(options)
    }
}

fn folder(path: &Path, what: &str) -> Result<PathBuf, ControlError> {
    let refuse = |why: String| ControlError::invalid(format!("{what} {path:?}: expected a directory, {why}"));
    let real = path.canonicalize().map_err(|error| refuse(error.to_string()))?;
    if !real.is_dir() {
        return Err(refuse("this is none".to_owned()));
    }
    Ok(real)
}

/// Errors of the body in the words of the doors, which know the exit status of each.
pub fn control_error(error: MountError) -> ControlError {
    match &error {
        MountError::Option(text) => ControlError::invalid(text.clone()),
        MountError::Cache(refused) => ControlError::invalid(refused.to_string()),
        MountError::Device(refused) => ControlError::Missing {
            what: error.to_string(),
            remedy: pantler_mount::device::remedy(refused).into(),
        },
        MountError::Watch(refused) if refused.is_missing() => ControlError::Missing {
            what: error.to_string(),
            remedy: "run as root, outside of containers, or choose --frames auto".into(),
        },
        MountError::Mount { error: cause, .. } => match remedy(cause) {
            Some(remedy) => ControlError::Missing {
                what: format!("a privilege ({})", error.to_string().trim_end()),
                remedy: remedy.into(),
            },
            None => ControlError::failed(error.to_string()),
        },
        _ => ControlError::failed(error.to_string()),
    }
}

/// What helps when the kernel, or the helper that mounts for it, says that a privilege is missing.
fn remedy(refused: &std::io::Error) -> Option<&'static str> {
    let text = refused.to_string();
    if text.contains("user_allow_other") {
        return Some("run as root, put user_allow_other into /etc/fuse.conf, or leave out --allow-other");
    }
    // The helper's errors have words and no number.
    let is_denied = refused.kind() == ErrorKind::PermissionDenied
        || ["no write access", "not permitted", "denied"].iter().any(|words| text.contains(words));
    is_denied.then_some("run as root, or install fuse3 and own the mount point")
}

/// Unmounts a mount of ours with a host that does not answer, or says that there is none.
pub fn unmount_unhosted(mount_point: &Path) -> Result<()> {
    let path = resolved(mount_point).map_or_else(|| std::path::absolute(mount_point), Ok)?;
    let refused = match pantler_mount::stale::unmount(&path) {
        Ok(true) => return Ok(()),
        Ok(false) => ControlError::not_found(format!("mount {:?}", mount_point.display().to_string())),
        Err(error) if rustix::process::geteuid().is_root() => control_error(error),
        Err(error) => {
            ControlError::denied(format!("{error}; root and the user that mounted it may unmount it"))
        }
    };
    Err(refused.into())
}

/// A path as it was typed without links, except in its last component: a mount without a host
/// answers nothing, and resolving it asks.
pub fn resolved(typed: &Path) -> Option<PathBuf> {
    let parent = typed.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new(".")).canonicalize().ok()?;
    Some(parent.join(typed.file_name()?))
}

/// Ends mounts without a host. Returns a line for each.
pub fn clean() -> Vec<String> {
    let cleaned = pantler_mount::stale::clean().unwrap_or_else(|error| {
        tracing::warn!(%error, "a mount of a host that is gone stays");
        Vec::new()
    });
    cleaned.iter().map(|path| path.display().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_helper_refuses_is_a_missing_privilege_with_its_remedy() {
        let said = |text: &str| {
            let error = std::io::Error::other(text.to_owned());
            control_error(MountError::Mount { path: "/mnt".into(), error })
        };
        let other =
            "fusermount3: option allow_other only allowed if 'user_allow_other' is set in /etc/fuse.conf\n";
        assert_eq!(said(other).exit_status(), 3);
        assert!(said(other).to_string().contains("put user_allow_other into /etc/fuse.conf"));
        let foreign = said("fusermount3: user has no write access to mountpoint /mnt");
        assert_eq!(foreign.exit_status(), 3);
        assert!(foreign.to_string().ends_with("own the mount point"), "{foreign}");
        assert_eq!(said("something else").exit_status(), 1);
    }
}
