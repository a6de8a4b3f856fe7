//! What people run, as rows: how each is run, and what is claimed of it. Included by the test of
//! the claims, and by `cargo xtask profiles`, which measures all rows at a larger size.
#![allow(dead_code, reason = "each of the two uses its part")]

/// How the page cache is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arm {
    /// The kernel alone, with all memory: what is read once, and what programs hold themselves.
    Unlimited,
    /// The kernel alone, in a group with the budget and what programs hold themselves as limit.
    Kernel,
    /// Steered by LRU.
    Lru,
    /// Steered without a hint.
    Auto,
    /// Steered by the row's profile.
    Profile,
}

impl Arm {
    pub const ALL: [Arm; 5] = [Arm::Unlimited, Arm::Kernel, Arm::Lru, Arm::Auto, Arm::Profile];

    pub fn name(self) -> &'static str {
        match self {
            Arm::Unlimited => "unlimited",
            Arm::Kernel => "kernel",
            Arm::Lru => "lru",
            Arm::Auto => "auto",
            Arm::Profile => "profile",
        }
    }

    pub fn is_steered(self) -> bool {
        !matches!(self, Arm::Unlimited | Arm::Kernel)
    }
}

/// Of what is read again, by `less` at most this share of what `more` reads again, in percent.
/// Read again is what a run reads more than one without a limit.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    pub less: Arm,
    pub percent: u64,
    pub more: Arm,
}

/// A program, or how it reads, and its budget.
#[derive(Debug)]
pub struct Row {
    pub name: &'static str,
    /// What it does, for the table.
    pub pattern: &'static str,
    /// As a fraction of the files below a folder.
    pub budget: (u64, u64),
    pub of: &'static str,
    /// How often it reads all its files, each once before any again.
    pub passes: u64,
    /// It runs beside a service, and both join a daemon.
    pub is_beside: bool,
    /// It maps its files. Without a hint those are left to the kernel, which gets the limit then.
    pub is_mapped: bool,
    /// What its programs hold besides files comes and goes with each of them: a steered run holds
    /// itself to the limit that the kernel has, so that files may use what programs leave.
    pub is_uneven: bool,
    pub profile: Option<&'static str>,
    /// Programs that it needs.
    pub needs: &'static [&'static str],
    pub claims: &'static [Claim],
}

impl Row {
    /// By its name.
    pub fn named(name: &str) -> Option<&'static Row> {
        ROWS.iter().find(|row| row.name == name)
    }

    /// Whether the group of a run has the limit.
    pub fn is_limited(&self, arm: Arm) -> bool {
        arm == Arm::Kernel || self.is_mapped && matches!(arm, Arm::Lru | Arm::Auto)
    }

    /// Whether a run holds itself to the limit, programs included.
    pub fn has_total(&self, arm: Arm) -> bool {
        self.is_uneven && arm.is_steered()
    }

    /// The least bytes that a steered run within its budget reads again: in each pass what was not
    /// in memory at its start. The budget may be passed by 5 %.
    pub fn least_again(&self, data: u64, budget: u64) -> u64 {
        (self.passes - 1) * data.saturating_sub(budget * 105 / 100)
    }

    /// Words for `pantler run`, of the program, or of the service beside it.
    fn hint(&self, arm: Arm, is_service: bool) -> Vec<&'static str> {
        match (arm, self.profile) {
            (Arm::Lru, _) => vec!["--profile", "none", "--policy", "lru"],
            (Arm::Profile, Some(name)) if !is_service => vec!["--profile", name],
            _ => vec!["--profile", "none"],
        }
    }

    /// Words before the row's script; `limit` is the budget and what is held besides.
    pub fn around(&self, arm: Arm, pantler: &str, budget: u64, limit: Option<u64>) -> Vec<String> {
        if self.is_beside || !arm.is_steered() {
            return Vec::new();
        }
        let total = limit.filter(|_| self.has_total(arm)).map(|bytes| bytes.to_string());
        let memory = total.clone().unwrap_or_else(|| budget.to_string());
        let mut words = vec![pantler, "run", "--memory", &memory, "--quiet"];
        if let Some(total) = &total {
            words.extend(["--total", total]);
        }
        words.extend(self.hint(arm, false));
        words.push("--");
        words.into_iter().map(str::to_owned).collect()
    }

    /// Words before the program and before the service, which join a daemon.
    pub fn joining(&self, arm: Arm, pantler: &str) -> [(&'static str, String); 2] {
        [("BESIDE", false), ("SERVICE", true)].map(|(name, is_service)| {
            let hint = self.hint(arm, is_service).join(" ");
            let joins = self.is_beside && arm.is_steered();
            (name, if joins { format!("{pantler} run --quiet {hint} --") } else { String::new() })
        })
    }
}

const fn claim(less: Arm, percent: u64, more: Arm) -> Claim {
    Claim { less, percent, more }
}

/// What reads its own files more than once, with two thirds of them as budget.
const ALONE: Row = Row {
    name: "",
    pattern: "",
    budget: (2, 3),
    of: ".",
    passes: 1,
    is_beside: false,
    is_mapped: false,
    is_uneven: false,
    profile: None,
    needs: &["/usr/bin/python3"],
    claims: &[],
};
/// What reads once, beside a service whose file has room.
const BESIDE: Row = Row { budget: (5, 4), of: "hot", is_beside: true, ..ALONE };
/// What half of the files is budget for.
const MAPPED: Row = Row { budget: (1, 2), is_mapped: true, ..ALONE };

pub const ROWS: &[Row] = &[
    Row {
        name: "weights-read",
        pattern: "weights of a model, read from start to end by five processes",
        passes: 5,
        claims: &[claim(Arm::Auto, 70, Arm::Kernel)],
        ..ALONE
    },
    Row {
        name: "mapped-cycles",
        pattern: "a file, mapped, all pages in order five times by one thread",
        passes: 5,
        is_mapped: true,
        profile: Some("mapped-cycles"),
        claims: &[claim(Arm::Profile, 60, Arm::Kernel)],
        ..ALONE
    },
    Row {
        name: "epochs",
        pattern: "small files, each once in an epoch, in another order each of six times",
        passes: 6,
        claims: &[claim(Arm::Auto, 75, Arm::Kernel)],
        ..ALONE
    },
    Row {
        name: "merges",
        pattern: "merges of twelve segments to three, as by Lucene, while searches go on",
        budget: (1, 2),
        ..ALONE
    },
    Row { name: "lmdb", pattern: "LMDB, keys at random, some far more often", ..MAPPED },
    Row {
        name: "vectors",
        pattern: "a graph and eight times as many vectors, mapped, both at random, as by qdrant",
        ..MAPPED
    },
    Row {
        name: "ripgrep",
        pattern: "five searches in many files",
        passes: 5,
        profile: Some("grep"),
        needs: &["/usr/bin/python3", "rg"],
        claims: &[
            claim(Arm::Auto, 70, Arm::Kernel),
            claim(Arm::Profile, 60, Arm::Kernel),
            claim(Arm::Profile, 95, Arm::Auto),
        ],
        ..ALONE
    },
    Row { name: "fd", pattern: "five searches for names", needs: &["/usr/bin/python3", "fdfind"], ..ALONE },
    Row {
        name: "gcc",
        pattern: "24 sources that include three quarters of many headers",
        of: "headers",
        is_uneven: true,
        needs: &["/usr/bin/python3", "gcc"],
        ..ALONE
    },
    Row {
        name: "sqlite",
        pattern: "five scans of a table, a process each",
        passes: 5,
        needs: &["sqlite3"],
        claims: &[claim(Arm::Auto, 70, Arm::Kernel)],
        ..ALONE
    },
    Row {
        name: "postgresql",
        pattern: "lookups, some keys far more often, beside a report over a larger table",
        budget: (1, 3),
        of: "data/base",
        profile: Some("postgresql-indexes"),
        needs: &["psql"],
        ..ALONE
    },
    Row {
        name: "tar",
        pattern: "tar into a pipe, beside a service",
        profile: Some("tar"),
        needs: &["/usr/bin/python3", "tar"],
        claims: &[claim(Arm::Profile, 60, Arm::Auto)],
        ..BESIDE
    },
    Row {
        name: "restic",
        pattern: "a backup into a new repository on the same disk, beside a service",
        profile: Some("tar"),
        needs: &["/usr/bin/python3", "restic"],
        ..BESIDE
    },
    Row {
        name: "borg",
        pattern: "the same",
        profile: Some("tar"),
        needs: &["/usr/bin/python3", "borg"],
        ..BESIDE
    },
    Row {
        name: "ld",
        pattern: "ld -r of objects of 512 KiB, beside a service",
        profile: Some("ld"),
        needs: &["/usr/bin/python3", "ld", "as"],
        ..BESIDE
    },
    Row {
        name: "dpkg",
        pattern: "dpkg --unpack of eight packages, beside a service",
        profile: Some("tar"),
        needs: &["/usr/bin/python3", "dpkg"],
        ..BESIDE
    },
    Row {
        name: "image",
        pattern: "skopeo copies an image and umoci unpacks it, beside a service",
        profile: Some("tar"),
        needs: &["/usr/bin/python3", "skopeo", "umoci"],
        ..BESIDE
    },
];

/// What `sh` runs: `sh SCRIPT prepare|run ROW`.
pub const SCRIPT: &str = include_str!("programs.sh");
/// What the script runs.
pub const PATTERNS: &str = include_str!("patterns.py");
