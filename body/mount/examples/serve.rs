//! Serves a directory until its standard input ends, or a signal kills it: `serve ORIGIN MOUNTPOINT
//! [KEY=VALUE]...` with keys `cache`, `block`, `threads`, `owner`, `allocation`, `refresh_ms` and
//! `policy`. Tests and benchmarks use it as a daemon that they may kill; the `pantler` command is
//! what people use.

use std::io::{Read, Write};
use std::process::ExitCode;

use pantler_control::{Hint, OwnerSelector, PolicyName, Speaker};
use pantler_mount::{Mount, MountError, MountOptions};

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("serve: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), MountError> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or_else(|| MountError::Option("serve ORIGIN MOUNTPOINT".into()));
    let mut options = MountOptions::new(next()?, next()?);
    let mut policy = None;
    for argument in arguments {
        let bad = || MountError::Option(format!("{argument}: not understood"));
        let (key, value) = argument.split_once('=').ok_or_else(bad)?;
        match key {
            "cache" => options.cache_bytes = value.parse().map_err(|_| bad())?,
            "block" => options.block_bytes = value.parse().map_err(|_| bad())?,
            "threads" => options.threads = value.parse().map_err(|_| bad())?,
            "owner" => options.owner_by = value.parse()?,
            "allocation" => options.allocation = value.parse().map_err(|_| bad())?,
            "policy" => policy = Some(value.parse().map_err(|_| bad())?),
            "refresh_ms" => {
                options.refresh = std::time::Duration::from_millis(value.parse().map_err(|_| bad())?)
            }
            _ => return Err(bad()),
        }
    }
    let mounted = Mount::new(options)?.spawn()?;
    if let Some(policy) = policy {
        set_policy(&mounted, policy)?;
    }
    println!("ready");
    // The reader of that line may be gone.
    let _ = std::io::stdout().flush();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    let counters = mounted.counters();
    mounted.unmount()?;
    eprintln!("{counters:?}");
    Ok(())
}

/// Sets the policy of priority 0 for all owners of this user.
fn set_policy(mounted: &pantler_mount::Mounted, policy: PolicyName) -> Result<(), MountError> {
    let uid = rustix::process::geteuid().as_raw();
    let speaker = Speaker { uid, gid: uid, groups: Vec::new(), pid: std::process::id() };
    let hint = Hint::SetPolicy { priority: 0, policy };
    let answer = mounted.body().hint(&speaker, &OwnerSelector::UserDefault, &hint, None);
    answer.map(drop).map_err(|error| MountError::Option(error.to_string()))
}
