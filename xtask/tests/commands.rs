//! Documents name the experiments that their figures come from: each command that one names is
//! there to be run, and each document of measurements names one.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies inside the workspace").to_owned()
}

/// What is in the repository that commands can name.
struct Named {
    makefile: String,
    usage: String,
    /// Manifests of all packages, and their folders.
    packages: Vec<(PathBuf, String)>,
}

impl Named {
    fn new() -> Named {
        let read = |path: &str| fs::read_to_string(root().join(path)).expect(path);
        let folders = ["bindings", "body", "core", "host", "lab", "serve"];
        let below = folders.iter().flat_map(|folder| fs::read_dir(root().join(folder)).expect(folder));
        let inner = below.map(|entry| entry.expect("an entry").path());
        let outer = ["benches", "cli", "fuzz", "xtask"].map(|folder| root().join(folder));
        let manifest = |folder: PathBuf| {
            let text = fs::read_to_string(folder.join("Cargo.toml")).ok()?;
            Some((folder, text))
        };
        let packages = inner.chain(outer).filter_map(manifest).collect();
        Named { makefile: read("Makefile"), usage: read("xtask/src/main.rs"), packages }
    }

    fn package(&self, name: &str) -> Option<&Path> {
        let line = format!("name = \"{name}\"");
        let found = self.packages.iter().find(|(_, text)| text.lines().any(|each| each == line));
        found.map(|(folder, _)| folder.as_path())
    }

    /// What is wrong with a command, if anything.
    fn complaint(&self, words: &[&str]) -> Option<String> {
        let after = |option: &str, short: &str| {
            words.windows(2).find(|pair| pair[0] == option || pair[0] == short).map(|pair| pair[1])
        };
        match words {
            ["make", target, ..] if is_name(target) => {
                let is_there = self.makefile.lines().any(|line| line.starts_with(&format!("{target}:")));
                (!is_there).then(|| format!("make {target}"))
            }
            ["cargo", "xtask", command, ..] if is_name(command) => {
                let is_there = self.usage.lines().any(|line| line.split_whitespace().next() == Some(command));
                (!is_there).then(|| format!("cargo xtask {command}"))
            }
            ["cargo", what @ ("test" | "bench" | "run"), ..] => {
                let package = after("--package", "-p")?;
                let Some(folder) = self.package(package) else { return Some(format!("package {package}")) };
                let (option, place) = match *what {
                    "test" => ("--test", "tests"),
                    "bench" => ("--bench", "benches"),
                    _ => ("--example", "examples"),
                };
                let target = after(option, option)?;
                let is_file = folder.join(place).join(format!("{target}.rs")).is_file();
                let is_folder = folder.join(place).join(target).join("main.rs").is_file();
                (!is_file && !is_folder).then(|| format!("{package} {option} {target}"))
            }
            _ => None,
        }
    }
}

fn is_name(word: &str) -> bool {
    word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-') && !word.starts_with('-')
}

/// The commands of a document: what stands between backquotes, and lines of blocks of code.
fn commands(text: &str) -> Vec<Vec<&str>> {
    let mut found = Vec::new();
    for (number, part) in text.split("```").enumerate() {
        let pieces: Vec<&str> = if number % 2 == 1 {
            part.lines().skip(1).collect()
        } else {
            part.split('`').skip(1).step_by(2).collect()
        };
        for piece in pieces {
            let words: Vec<&str> = piece.split_whitespace().collect();
            let begin = words.iter().position(|word| ["cargo", "make"].contains(word));
            let is_command = begin.is_some_and(|at| {
                words[..at].iter().all(|word| ["$", "#", "sudo"].contains(word) || word.contains('='))
            });
            if is_command {
                found.push(words[begin.unwrap_or(0)..].to_vec());
            }
        }
    }
    found
}

fn markdown_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut files = Vec::new();
    for path in entries {
        if path.is_dir() {
            files.extend(markdown_below(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
    files
}

#[test]
fn commands_that_documents_name_are_there() {
    let named = Named::new();
    let mut documents = markdown_below(&root().join("docs"));
    documents.extend(["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].map(|name| root().join(name)));
    // Decisions tell of their time.
    documents.retain(|path| !path.components().any(|part| part.as_os_str() == "decisions"));
    let (mut count, mut complaints) = (0, Vec::new());
    for path in documents {
        let text = fs::read_to_string(&path).expect("a document is text");
        for words in commands(&text) {
            count += 1;
            let complaint = named.complaint(&words);
            complaints.extend(complaint.map(|what| format!("{}: there is no {what}", path.display())));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(count > 100, "only {count} commands were found");
}

#[test]
fn documents_of_measurements_name_what_measures() {
    for path in markdown_below(&root().join("docs/benchmarks")) {
        let text = fs::read_to_string(&path).expect("a document is text");
        let measures = |words: &Vec<&str>| {
            let what = words.get(1).copied().unwrap_or_default();
            words[0] == "make" || ["xtask", "test", "bench", "run"].contains(&what)
        };
        assert!(commands(&text).iter().any(measures), "{} names no command", path.display());
    }
}

#[test]
fn commands_are_found_and_held_against_what_is_there() {
    let text = "`make demo` and `cargo xtask gone`\n```sh\nsudo make nothing\n$ X=1 cargo test -p pantler-sim --test none -- x\n```\n`making`";
    let found = commands(text);
    assert_eq!(found.len(), 4);
    let named = Named::new();
    let complaints: Vec<String> = found.iter().filter_map(|words| named.complaint(words)).collect();
    assert_eq!(complaints, ["cargo xtask gone", "make nothing", "pantler-sim --test none"]);
}
