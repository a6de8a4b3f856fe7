//! Transcripts of the command: what it is told, how it ends, and what it says where.

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn pantler(runtime: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
    command.args(words).env("PANTLER_RUNTIME_DIR", runtime.join("run")).env_remove("PANTLER_LOG");
    command.env_remove("SUDO_UID").env_remove("SUDO_GID");
    command
}

fn transcript(words: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    ended(pantler(folder.path(), words).stdin(Stdio::null()).output().unwrap())
}

fn ended(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// The words are refused: one line that names the value and what is allowed, status 2, nothing on
/// standard output.
fn refused(words: &[&str], expected: &str) {
    let (status, out, err) = transcript(words);
    assert_eq!((status, out.as_str()), (2, ""), "{words:?}: {err}");
    assert_eq!(err, format!("pantler: {expected}\n"), "{words:?}");
}

fn policies() -> String {
    pantler_policy::PolicyName::ALL.map(|name| name.as_str()).join(" ")
}

#[test]
fn bad_values_are_refused_in_one_line() {
    const SIZE: &str =
        "expected a positive number of bytes, or one with K, M, G or T, such as 64M, 64MB or 0.5G";
    refused(
        &["run", "--memory", "0", "true"],
        &format!("invalid value '0' for '--memory <SIZE|%>': size \"0\": {SIZE}"),
    );
    refused(
        &["run", "--memory", "-1", "true"],
        &format!("invalid value '-1' for '--memory <SIZE|%>': size \"-1\": {SIZE}"),
    );
    refused(
        &["run", "--memory", "101%", "true"],
        &format!("invalid value '101%' for '--memory <SIZE|%>': size \"101%\": {SIZE}"),
    );
    refused(
        &["run", "--memory", "64MX", "true"],
        &format!("invalid value '64MX' for '--memory <SIZE|%>': size \"64MX\": {SIZE}"),
    );
    refused(
        &["run", "--memory", "16M", "--total", "1M", "true"],
        "--total 1M: expected at least --memory, which is 16M",
    );
    refused(
        &["run", "--memory", "1M", "--allocation", "fifo", "true"],
        "invalid value 'fifo' for '--allocation <NAME>': expected lru-sp, global-lru",
    );
    refused(
        &["mount", "/a", "/b", "--allocation", "lru-s"],
        "invalid value 'lru-s' for '--allocation <NAME>': expected lru-sp, global-lru (did you mean \"lru-sp\"?)",
    );
    refused(
        &["run", "--memory", "1M", "--owner-name", "12", "true"],
        "invalid value '12' for '--owner-name <NAME>': owner name \"12\": expected a name, not a number",
    );
    refused(
        &["run", "--memory", "1M", "--profile", "cskope", "true"],
        "profile \"cskope\": expected a file, or one of cscope, cscope-text, glimpse, grep, ld, mapped-cycles, postgresql-indexes, sort, tar (did you mean \"cscope\"?)",
    );
    refused(
        &["run", "--memory", "1M", "no-such-program-anywhere"],
        "program \"no-such-program-anywhere\": expected a path, or a name found in PATH",
    );
    refused(
        &["mount", "/a", "/b", "--block-size", "5000"],
        "invalid value '5000' for '--block-size <SIZE>': expected a power of two from 4K to 1M",
    );
    refused(
        &["mount", "/a", "/b", "--threads", "0"],
        "invalid value '0' for '--threads <COUNT>': expected a whole number from 1 to 256",
    );
    refused(
        &["hint", "set-policy", "0", "best"],
        &format!(
            "invalid value 'best' for '<POLICY>': unknown policy `best`, expected one of {}",
            policies()
        ),
    );
    refused(
        &["mount", "/a", "/b", "--policy", "opt"],
        "invalid value 'opt' for '--policy <POLICY>': `opt` would have to know the future",
    );
    for bad in ["5000", "-1025", "x", "", "99999999999"] {
        refused(
            &["hint", "set-policy", bad, "mru"],
            &format!("invalid value '{bad}' for '<PRIORITY>': expected a whole number from -1024 to 1023"),
        );
    }
    refused(
        &["hint", "set-temporary-priority", "f", "x", "3", "1"],
        "invalid value 'x' for '<FIRST>': expected a whole number from 0 to 18446744073709551615",
    );
    for words in [&["hint", "set-priority", "/", "1"][..], &["explain", "/"]] {
        refused(words, "file \"/\": expected a regular file");
    }
    refused(&["hint"], "expected a command, see pantler hint --help");
    refused(&["-v"], "expected a command, see pantler --help");
    refused(
        &["hint", "set-priority", "/no/such/file", "1"],
        "file \"/no/such/file\": expected one that exists",
    );
    refused(
        &["hint", "set-temporary-priority", "/etc/passwd", "3", "2", "-1"],
        "blocks 3 to 2: the last block must not come before the first",
    );
    refused(
        &["hint", "done-with", "/etc/passwd", "3", "2"],
        "blocks 3 to 2: the last block must not come before the first",
    );
    refused(
        &["hint", "done-with", "/etc/passwd", "3"],
        "the following required arguments were not provided: <LAST>",
    );
    refused(
        &["hint", "clear", "--owner", "a b"],
        "invalid value 'a b' for '--owner <NAME|PID>': owner name \"a b\": \
        expected 1 to 64 letters, digits, '.', '_' or '-', not all digits",
    );
    for bad in ["0", "x", "86401"] {
        refused(
            &["stat", "--watch", bad],
            &format!("invalid value '{bad}' for '--watch [<SECONDS>]': expected seconds from 0.1 to 86400"),
        );
    }
    refused(&["run"], "the following required arguments were not provided: <PROGRAM>...");
    refused(&["dance"], "unrecognized subcommand 'dance'");
    refused(&["status"], "unrecognized subcommand 'status' (did you mean \"stat\"?)");
    refused(
        &["run", "--memery", "1M", "true"],
        "unexpected argument '--memery' found (did you mean \"--memory\"?)",
    );
    let near = |name: &str, near: &str| {
        format!(
            "invalid value '{name}' for '--policy <POLICY>': unknown policy `{name}`, expected one of {} \
             (did you mean \"{near}\"?)",
            policies()
        )
    };
    refused(&["mount", "/a", "/b", "--policy", "arcc"], &near("arcc", "arc"));
    refused(&["run", "--memory", "1M", "--policy", "lruu", "true"], &near("lruu", "lru"));
    refused(&["tier"], "expected a command, see pantler tier --help");
    refused(
        &["sim", "loop:ids=9", "--policy", "lru", "--size", "3", "--threads", "0"],
        "invalid value '0' for '--threads <COUNT>': expected a whole number of at least 1",
    );
    refused(&["trace"], "expected a command, see pantler trace --help");
    refused(&["run", "--memory", "4K", "true"], "--memory 4K: expected 1M to 4T");
    refused(&[], "expected a command, see pantler --help");
}

/// Protects the reader that mistyped a name: each kind of name is guessed, wherever it stands.
#[test]
fn a_mistyped_value_gets_a_suggestion() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).display().to_string()
    };
    let sim = ["sim", "loop:ids=9", "--allocation", "lru-sp"];
    for (words, near) in [
        (&["completions", "bas"][..], "bash"),
        (&["sim", "loop:ids=9", "--policy", "lru", "--size", "3", "--body", "ster"], "steer"),
        (&["mount", "/a", "/b", "--tier-missing", "fial"], "fail"),
        (&["web", "--root", "/", "--order", "fif"], "fifo"),
        (&["dust", "policy:arcc"], "arc"),
        (&["dust", "polcy:arc"], "policy"),
        (&["dust", "pagecach"], "pagecache"),
        (&["trace", "info", "--format", "lirz", "-"], "lirs"),
        (&["sim", "loop:ids=9", "--allocation", "lru-sp", "--common-policy", "cluck"], "clock"),
        (
            &["run", "--memory", "1M", "--profile", &at("rule.toml", "[[file]]\nglbo = \"*\"\n"), "true"],
            "glob",
        ),
        (&["run", "--memory", "1M", "--profile", &at("key.toml", "polices = 1\n"), "true"], "policies"),
        (
            &["run", "--memory", "1M", "--profile", &at("policy.toml", "[policies]\n0 = \"mruu\"\n"), "true"],
            "mru",
        ),
        (&[&sim[..], &["--control", &at("owner.toml", "[a.polices]\n")]].concat(), "policies"),
        (&[&sim[..], &["--control", &at("control.toml", "[a.policies]\n0 = \"arcc\"\n")]].concat(), "arc"),
    ] {
        let (status, out, err) = transcript(words);
        assert_eq!((status, out.as_str(), err.lines().count()), (2, "", 1), "{words:?}: {err}");
        assert!(err.contains(&format!("did you mean {near:?}?")), "{words:?}: {err}");
    }
}

#[test]
fn profiles_with_mistakes_are_refused_with_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.toml");
    std::fs::write(&path, "[policies]\n0 = \"mru\"\n\n[[file]]\nglob = \"*\"\ncolour = 1\n").unwrap();
    let path = path.to_str().unwrap();
    let (status, out, err) = transcript(&["run", "--memory", "1M", "--profile", path, "true"]);
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(err.starts_with(&format!("pantler: {path}:6:1: unknown field `colour`")), "{err}");
    assert_eq!(err.lines().count(), 1);
}

#[test]
fn a_profile_that_is_no_file_is_refused_without_waiting_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.toml");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &path, kind, rustix::fs::Mode::from_raw_mode(0o600), 0).unwrap();
    for path in [path.to_str().unwrap(), "/dev/zero", "/"] {
        let words = ["run", "--memory", "1M", "--profile", path, "true"];
        refused(&words, &format!("profile {path:?}: not a regular file"));
    }
}

#[test]
fn of_profiles_that_nobody_named_broken_ones_are_mentioned() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = folder.path().join("pantler/profiles");
    std::fs::create_dir_all(&profiles).unwrap();
    std::fs::write(profiles.join("broken.toml"), "programs = [\"true\"]\ncolour = 1\n").unwrap();
    for name in ["c", "b", "a"] {
        let text = format!("description = \"{name}\"\nprograms = [\"true\"]\n");
        std::fs::write(profiles.join(format!("{name}.toml")), text).unwrap();
    }
    std::fs::write(profiles.join("0.toml"), "colour = 1\n").unwrap();
    let mut command = pantler(folder.path(), &["--verbose", "run", "true"]);
    let (status, _, err) = ended(command.env("XDG_CONFIG_HOME", folder.path()).output().unwrap());
    // There is nothing to control; what was chosen was said before.
    assert_eq!(status, 2, "{err}");
    assert!(err.contains("0.toml:1:1: unknown field `colour`"), "{err}");
    assert!(err.contains("/a.toml"), "{err}");
    assert!(!err.contains("/b.toml") && !err.contains("broken.toml"), "{err}");
}

#[test]
fn a_run_without_anything_to_control_is_refused() {
    refused(
        &["run", "true"],
        "nothing to control: expected --memory SIZE, a running mount, or a daemon that steers",
    );
}

#[test]
fn nothing_active_is_said_and_no_failure() {
    let (status, out, err) = transcript(&["stat", "--json"]);
    assert_eq!((status, out.as_str(), err.as_str()), (0, "", "pantler: no mount and no run is active\n"));
    let (status, _, err) = transcript(&["hint", "set-policy", "0", "mru"]);
    assert_eq!((status, err.as_str()), (1, "pantler: no mount and no run is active\n"));
    let (status, _, err) = transcript(&["hint", "set-policy", "0", "mru", "--on", "/x"]);
    assert_eq!(status, 1);
    assert!(err.starts_with("pantler: run or mount \"/x\" (there is none; no host answers in "), "{err}");
}

#[test]
fn help_and_version_go_to_standard_output() {
    for words in
        [&["--help"][..], &["--version"], &["run", "--help"], &["completions", "bash"], &["profiles"]]
    {
        let (status, out, err) = transcript(words);
        assert_eq!((status, err.as_str()), (0, ""), "{words:?}");
        assert!(!out.is_empty());
    }
}

/// Protects README and GUIDE: a line that needs no file gives a result to the reader that copies
/// it.
#[test]
fn the_lines_of_readme_and_guide_that_need_no_file_work_word_for_word() {
    let text = concat!(include_str!("../../README.md"), include_str!("../../docs/GUIDE.md"));
    let lines = text.lines().filter_map(|line| line.strip_prefix("$ pantler "));
    let lines = lines.filter(|line| ["sim ", "trace ", "dust "].iter().any(|word| line.starts_with(word)));
    let mut count = 0;
    for line in lines {
        let words: Vec<_> = line.split('#').next().unwrap().split_whitespace().collect();
        let (status, out, err) = transcript(&words);
        assert!(status == 0 && !out.is_empty(), "{line}: {status}: {err}");
        count += 1;
    }
    assert!(count >= 9, "only {count} lines were found");
}

/// Protects the names that people know: the library's own words for a missing setting are not among
/// them.
#[test]
fn half_of_the_credentials_of_a_bucket_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let point = folder.path().join("mnt");
    std::fs::create_dir(&point).unwrap();
    let mut command = pantler(folder.path(), &["mount", "s3://bucket/prefix", point.to_str().unwrap()]);
    command.env("AWS_ACCESS_KEY_ID", "someone").env_remove("AWS_SECRET_ACCESS_KEY").stdin(Stdio::null());
    let (status, _, err) = ended(command.output().unwrap());
    assert_ne!(status, 0);
    assert!(err.contains("AWS_SECRET_ACCESS_KEY is missing: AWS_ACCESS_KEY_ID was given"), "{err}");
}

/// Protects completion of values: a shell must offer policies and profiles, not the names of files.
#[test]
fn shells_complete_the_names_of_policies_profiles_and_lookaheads() {
    for shell in ["bash", "zsh", "fish"] {
        let (_, script, _) = transcript(&["completions", shell]);
        for name in ["s3-fifo", "cscope-text", "sa-w2r", "global-lru"] {
            assert!(script.contains(name), "{shell} does not complete {name}");
        }
    }
}

/// Protects completion of values that are understood later: what bash offers behind each option.
#[test]
fn bash_completes_the_values_of_simulations_and_traces() {
    let (_, script, _) = transcript(&["completions", "bash"]);
    let offered = |words: &str| {
        let line = format!(
            "{script}\nCOMP_WORDS=({words} ''); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
             _pantler pantler '' \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; echo \" ${{COMPREPLY[*]}} \""
        );
        ended(Command::new("bash").args(["-c", &line]).output().unwrap()).1
    };
    for (words, name) in [
        ("pantler sim --policy", "opt-bypass"),
        ("pantler sim --lookahead", "sa-w2r"),
        ("pantler sim --allocation", "alloc-lru"),
        ("pantler sim --common-policy", "s3-fifo"),
        ("pantler sim --revocation", "never"),
        ("pantler sim --format", "oracle-general"),
        ("pantler sim tiers --protocol", "uni-lru"),
        ("pantler sim tiers --clients", "owners"),
        ("pantler sim tiers --allocation", "lru-s"),
        ("pantler sim localities --measure", "lrd-rd"),
        ("pantler sim processes --configuration", "ac+prefetch"),
        ("pantler sim processes --disk", "rz56"),
        ("pantler sim processes --lists", "shuffled"),
        ("pantler sim processes --lookahead", "obl-2"),
        ("pantler trace info --format", "hash-ids"),
        ("pantler trace generate", "stack-distance"),
    ] {
        let offered = offered(words);
        assert!(offered.contains(&format!(" {name} ")), "{words}: {offered}");
    }
}

#[test]
fn a_shipped_profile_can_be_shown_edited_and_used() {
    let (status, out, _) = transcript(&["profiles", "sort"]);
    assert_eq!(status, 0);
    assert!(out.contains("[[file]]"));
    refused(
        &["profiles", "x"],
        "profile \"x\": expected a file, or one of cscope, cscope-text, glimpse, grep, ld, mapped-cycles, postgresql-indexes, sort, tar",
    );
}

#[test]
fn a_mistyped_option_is_not_taken_for_the_program() {
    for words in [&["run", "--memroy", "64M", "--", "true"][..], &["run", "--memroy", "true"]] {
        let (status, out, err) = transcript(words);
        assert_eq!((status, out.as_str(), err.lines().count()), (2, "", 1), "{err}");
        assert!(err.contains("'--memroy'"), "{err}");
    }
    let (status, _, err) = transcript(&["run", "--best-effort", "--memory", "1M", "--", "--odd"]);
    assert_eq!(status, 2);
    assert!(err.contains("program \"--odd\""), "{err}");
}

#[test]
fn a_log_filter_that_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for bad in ["pantler_mount=loud", "a=b=c"] {
        let mut command = pantler(folder.path(), &["profiles"]);
        let (status, out, err) = ended(command.env("PANTLER_LOG", bad).output().unwrap());
        assert_eq!((status, out.as_str(), err.lines().count()), (2, "", 1), "{err}");
        assert!(err.starts_with(&format!("pantler: PANTLER_LOG \"{bad}\": expected a level")), "{err}");
    }
    let mut command = pantler(folder.path(), &["profiles"]);
    assert_eq!(ended(command.env("PANTLER_LOG", "info,pantler_mount=debug").output().unwrap()).0, 0);
}

#[test]
fn doctor_speaks_json_lines() {
    let (status, out, _) = transcript(&["doctor", "--json"]);
    assert!(status == 0 || status == 3, "{status}");
    for line in out.lines() {
        let start = "{\"version\":1,\"kind\":\"doctor\",\"feature\":";
        assert!(line.starts_with(start) && line.ends_with('}'), "{line}");
    }
}

/// `eprintln!` panics when the reader of standard error has gone: status 101, not the command's.
#[test]
fn a_reader_of_standard_error_that_went_away_changes_no_status() {
    let folder = tempfile::tempdir().unwrap();
    for (words, status) in
        [(&["stat"][..], 0), (&["frobnicate"], 2), (&["run", "true"], 2), (&["umount", "/proc/self"], 1)]
    {
        let said = pantler(folder.path(), words).stdin(Stdio::null()).output().unwrap();
        let (nobody, writer) = std::io::pipe().unwrap();
        drop(nobody);
        let mut deaf = pantler(folder.path(), words);
        let ended = deaf.stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer).status().unwrap();
        assert_eq!(ended.code(), said.status.code(), "{words:?}");
        assert_eq!(ended.code(), Some(status), "{words:?}");
        assert!(!said.stderr.is_empty(), "{words:?} says nothing");
    }
}

/// Protects what packages take: a page for each command that the help names, which `man` finds by
/// its name, and none for the commands that are hidden.
#[test]
fn each_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["manual", folder.path().to_str().unwrap()];
    assert_eq!(transcript(&words), (0, String::new(), String::new()));
    let (_, help, _) = transcript(&["--help"]);
    let commands = help.split("Commands:").nth(1).unwrap().split("Options:").next().unwrap();
    let commands = commands.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let named: Vec<&str> = commands.filter(|name| !name.is_empty() && *name != "help").collect();
    assert!(named.len() > 15, "{named:?}");
    for name in named {
        let page = folder.path().join(format!("pantler-{name}.1"));
        let text = std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(text.contains(&format!(".SH NAME\npantler\\-{name} \\- ")), "{name}: {text}");
    }
    for hidden in ["manual", "internal-stage"] {
        assert!(!folder.path().join(format!("pantler-{hidden}.1")).exists(), "{hidden}");
    }
    let absent = folder.path().join("absent");
    let (status, _, err) = transcript(&["manual", absent.to_str().unwrap()]);
    assert!(status == 1 && err.contains("cannot write pages to"), "{status}: {err}");
}
