//! Every shipped profile, and every mistake a profile can hold.

use super::*;

fn refused(text: &str) -> String {
    Profile::parse("p.toml", text).unwrap_err().to_string()
}

#[test]
fn every_builtin_reads_and_is_found_by_its_programs() {
    for name in Profile::builtin_names() {
        let profile = Profile::builtin(name).unwrap();
        assert!(!profile.policies.is_empty() || !profile.files.is_empty(), "{name} changes nothing");
        assert!(!profile.description.is_empty(), "{name} says nothing");
        // One that is about a use of a program is chosen by name.
        assert!(!profile.programs.is_empty() || name.contains('-'), "{name} names no program");
        for program in &profile.programs {
            assert_eq!(Profile::builtin_for_program(program).unwrap().0, name, "{program} is named twice");
        }
    }
    assert!(Profile::builtin_for_program("no-such-program").is_none());
}

#[test]
fn the_builtin_profiles_follow_their_strategies() {
    let rule = |name: &str, path: &str| {
        let profile = Profile::builtin(name).unwrap();
        profile.rule(Path::new(path)).map(|rule| (rule.priority, rule.done_with))
    };
    for (name, path, expected) in [
        ("cscope", "/src/cscope.out", Some((0, false))),
        ("glimpse", "/news/.glimpse_index", Some((1, false))),
        ("glimpse", "/news/.glimpse_partitions", Some((1, false))),
        ("glimpse", "/news/.glimpse_filenames", Some((1, false))),
        ("glimpse", "/news/.glimpse_statistics", Some((1, false))),
        ("glimpse", "/news/comp.os/1", None),
        ("ld", "/build/fs/ext4/inode.o", Some((0, true))),
        ("ld", "/build/lib.a", Some((0, true))),
        ("sort", "/tmp/sortQ7x_1a", Some((0, true))),
        ("sort", "/home/a/lines.txt", Some((-1, true))),
        (
            "postgresql-indexes",
            "/var/lib/postgresql/15/main/pg_wal/000000010000000000000001",
            Some((-1, true)),
        ),
        ("postgresql-indexes", "/var/lib/postgresql/15/main/base/5/16384_vm", Some((1, false))),
        ("postgresql-indexes", "/var/lib/postgresql/15/main/base/5/16384", None),
        ("tar", "/any/file", Some((-1, true))),
    ] {
        assert_eq!(rule(name, path), expected, "{name} {path}");
    }
    for (name, priority) in [
        ("cscope", 0),
        ("glimpse", 0),
        ("glimpse", 1),
        ("grep", 0),
        ("mapped-cycles", 0),
        ("sort", -1),
        ("sort", 0),
    ] {
        assert_eq!(Profile::builtin(name).unwrap().policies[&priority], PolicyName::Mru, "{name}");
    }
}

#[test]
fn blocks_that_are_done_with_leave_before_the_rest_of_their_file() {
    assert_eq!([PRIORITY_MIN, -1, 0, 5].map(below), [PRIORITY_MIN, -2, -1, -1]);
}

#[test]
fn the_first_matching_rule_decides() {
    let text = "[[file]]\nglob = \"*.idx\"\npriority = 2\n[[file]]\nglob = \"*\"\npriority = -1\n";
    let profile = Profile::parse("p", text).unwrap();
    assert_eq!(profile.rule(Path::new("a.idx")).unwrap().priority, 2);
    assert_eq!(profile.rule(Path::new("a.dat")).unwrap().priority, -1);
}

#[test]
fn mistakes_are_named_with_line_and_column() {
    for (text, expected) in [
        ("programs = [\"x\"]\ncolour = 1\n", "p.toml:2:1: unknown field `colour`"),
        ("[[file]]\nglob = \"*\"\npriority = 5000\n", "p.toml:3:12: priority 5000: expected"),
        ("[[file]]\nglob = \"[\"\n", "p.toml:2:8: glob \"[\": "),
        ("[policies]\n0 = \"best\"\n", "p.toml:2:5: unknown policy `best`, expected one of"),
        ("[policies]\n0 = \"lru\"\n0 = \"mru\"\n", "p.toml:3:1: duplicate key"),
        ("programs = [\n", "p.toml:"),
    ] {
        assert!(refused(text).starts_with(expected), "{expected}");
    }
    assert!(refused("[[file]]\npriority = 1\n").contains("missing field `glob`"));
    assert!(refused("[policies]\n00 = \"lru\"\n").contains("priority \"00\": expected a whole number"));
}

#[test]
fn too_much_is_refused() {
    assert!(refused(&"#".repeat(PROFILE_BYTES_MAX + 1)).contains("at most 65536 bytes"));
    assert!(refused(&"[[file]]\nglob = \"*\"\n".repeat(RULES_MAX + 1)).contains("at most 256 rules"));
}

#[test]
fn a_profile_survives_the_socket() {
    for name in Profile::builtin_names() {
        let profile = Profile::builtin(name).unwrap();
        let text = serde_json::to_string(&profile).unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile);
    }
}

#[test]
fn the_example_of_the_documentation_reads() {
    let text = include_str!("../../../../docs/PROFILES.md");
    let example = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let profile = Profile::parse("docs/PROFILES.md", example).unwrap();
    assert_eq!((profile.files.len(), profile.policies.len(), profile.programs.len()), (2, 2, 2));
}

#[test]
fn what_is_read_in_which_order() {
    let text =
        "prefetch = \"list:cscope.files\"\n[[file]]\nglob = \"cscope.out\"\nprefetch = \"sequential\"\n";
    let profile = Profile::parse("x", text).unwrap();
    assert_eq!(profile.prefetch, Some(Prefetch::List("cscope.files".into())));
    assert_eq!(profile.files[0].prefetch, Some(Prefetch::Sequential));
    let unknown = refused("programs = [\"a\"]\nprefetch = \"backwards\"\n");
    assert!(unknown.starts_with("p.toml:2:12: prefetch \"backwards\": expected \"sequential\""), "{unknown}");
    let single = refused("[[file]]\nglob = \"*\"\nprefetch = \"list:names\"\n");
    assert!(single.starts_with("p.toml:3:12: prefetch list:names: expected \"sequential\""), "{single}");
}
