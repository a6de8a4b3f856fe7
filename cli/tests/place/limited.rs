//! A control group with a limit of memory, version 1 or 2.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use pantler_rig::eventually;

/// The group, gone when dropped. Programs are in one below it, so that the limit is that of a group
/// above.
pub struct Limited(pub PathBuf);

impl Limited {
    /// `None`, and a line that says why, where there is none to be had.
    pub fn new(name: &str, bytes: u64) -> Option<Limited> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let own = own.lines().find_map(|line| line.split_once(":memory:").map(|(_, path)| path.to_owned()));
        // Without such a line the controller is that of version 2.
        let (above, limit) = own.map_or((PathBuf::from("/sys/fs/cgroup"), "memory.max"), |own| {
            (Path::new("/sys/fs/cgroup/memory").join(own.trim_start_matches('/')), "memory.limit_in_bytes")
        });
        let folder = above.join(format!("{name}-{}", std::process::id()));
        let made = fs::create_dir(&folder).and_then(|()| {
            fs::create_dir(folder.join("inner"))?;
            fs::write(folder.join(limit), bytes.to_string())
        });
        if made.is_ok() {
            return Some(Limited(folder));
        }
        assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "needs a control group: {made:?}");
        eprintln!("skipped: needs a control group: {made:?}");
        None
    }

    /// From now on files have `bytes` beside what is held besides now.
    pub fn limit_files(&self, bytes: u64) {
        let (all, files) = self.held();
        let limits = ["memory.limit_in_bytes", "memory.max"].map(|name| self.0.join(name));
        let limit = limits.iter().find(|limit| limit.exists()).expect("it was made with one");
        fs::write(limit, (bytes + all - files).to_string()).unwrap();
    }

    /// Bytes that it holds, and those of files.
    pub fn held(&self) -> (u64, u64) {
        let usages = ["memory.usage_in_bytes", "memory.current"];
        let all = usages.iter().find_map(|name| fs::read_to_string(self.0.join(name)).ok()).unwrap();
        let stat = fs::read_to_string(self.0.join("memory.stat")).unwrap();
        let files = ["total_cache ", "file "]
            .iter()
            .find_map(|name| stat.lines().find_map(|line| line.strip_prefix(name)));
        (all.trim().parse().unwrap(), files.unwrap().parse().unwrap())
    }

    /// A command in it.
    pub fn inside(&self, command: &Command) -> Command {
        let words: Vec<_> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
        let mut shell = Command::new("sh");
        let script = format!("echo $$ > {}/inner/cgroup.procs && exec \"$@\"", self.0.display());
        shell.args(["-c", &script, "sh"]).args(words);
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(key, value),
                None => shell.env_remove(key),
            };
        }
        shell.stdin(Stdio::null());
        shell
    }

    pub fn run(&self, command: Command) -> Output {
        self.inside(&command).output().unwrap()
    }

    pub fn killed(&self) -> bool {
        let files = ["inner/memory.oom_control", "memory.oom_control", "memory.events"];
        let texts: Vec<_> =
            files.iter().filter_map(|file| fs::read_to_string(self.0.join(file)).ok()).collect();
        assert!(!texts.is_empty(), "no file counts kills");
        texts
            .iter()
            .any(|text| text.lines().any(|line| line.starts_with("oom_kill ") && line != "oom_kill 0"))
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        for folder in [self.0.join("inner"), self.0.clone()] {
            eventually("the group is empty", || {
                fs::read_to_string(folder.join("cgroup.procs")).is_ok_and(|text| text.is_empty())
            });
            let _ = fs::remove_dir(folder);
        }
    }
}
