//! Every shipped profile, and every mistake a profile can hold.

use super::*;

fn refused(text: &str) -> String {
    Profile::parse("p.toml", text).unwrap_err().to_string()
}

#[test]
fn every_builtin_reads_and_is_found_by_its_programs() {
    for name in Profile::builtin_names() {
        let profile = Profile::builtin(name).unwrap();
        assert!(!profile.is_empty() && !profile.description.is_empty(), "{name} says nothing");
        // One that is about a use of a program is chosen by name.
        assert!(!profile.programs.is_empty() || name.contains('-'), "{name} names no program");
        for program in &profile.programs {
            assert_eq!(Profile::builtin_for_program(program).unwrap().0, name, "{program} is named twice");
        }
    }
    assert!(Profile::builtin_for_program("no-such-program").is_none());
}

#[test]
fn cscope_keeps_the_database_by_mru() {
    let profile = Profile::builtin("cscope").unwrap();
    assert_eq!(profile.rule(Path::new("/src/cscope.out")).map_or(0, |rule| rule.priority), 0);
    assert_eq!(profile.policies[&0], PolicyName::Mru);
}

#[test]
fn glimpse_keeps_its_index_before_its_text() {
    let profile = Profile::builtin("glimpse").unwrap();
    for file in [".glimpse_index", ".glimpse_partitions", ".glimpse_filenames", ".glimpse_statistics"] {
        assert_eq!(profile.rule(&Path::new("/news").join(file)).unwrap().priority, 1);
    }
    assert!(profile.rule(Path::new("/news/comp.os/1")).is_none());
    assert_eq!((profile.policies[&0], profile.policies[&1]), (PolicyName::Mru, PolicyName::Mru));
}

#[test]
fn ld_is_done_with_what_it_has_read() {
    let profile = Profile::builtin("ld").unwrap();
    assert!(profile.rule(Path::new("/build/fs/ext4/inode.o")).unwrap().done_with);
    assert!(profile.rule(Path::new("/build/lib.a")).unwrap().done_with);
}

#[test]
fn sort_prefers_temporary_files_to_input() {
    let profile = Profile::builtin("sort").unwrap();
    let temporary = profile.rule(Path::new("/tmp/sortQ7x_1a")).unwrap();
    let input = profile.rule(Path::new("/home/a/lines.txt")).unwrap();
    assert_eq!((temporary.priority, input.priority), (0, -1));
    assert!(temporary.done_with && input.done_with);
    assert_eq!((profile.policies[&-1], profile.policies[&0]), (PolicyName::Mru, PolicyName::Mru));
}

#[test]
fn postgresql_prefers_what_is_named_an_index() {
    let profile = Profile::builtin("postgresql").unwrap();
    let wal = profile.rule(Path::new("/var/lib/postgresql/15/main/pg_wal/000000010000000000000001")).unwrap();
    assert_eq!(wal.priority, -1);
    assert!(wal.done_with);
    let map = profile.rule(Path::new("/var/lib/postgresql/15/main/base/5/16384_vm")).unwrap();
    assert_eq!(map.priority, 1);
    assert!(profile.rule(Path::new("/var/lib/postgresql/15/main/base/5/16384")).is_none());
}

#[test]
fn grep_reads_in_cycles_and_tar_reads_once() {
    assert_eq!(Profile::builtin("grep").unwrap().policies[&0], PolicyName::Mru);
    assert!(Profile::builtin("tar").unwrap().rule(Path::new("/any/file")).unwrap().done_with);
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
    assert!(refused("programs = [\"x\"]\ncolour = 1\n").starts_with("p.toml:2:1: unknown field `colour`"));
    assert!(
        refused("[[file]]\nglob = \"*\"\npriority = 5000\n")
            .starts_with("p.toml:3:12: priority 5000: expected")
    );
    assert!(refused("[[file]]\nglob = \"[\"\n").starts_with("p.toml:2:8: glob \"[\": "));
    assert!(refused("[[file]]\npriority = 1\n").contains("missing field `glob`"));
    assert!(
        refused("[policies]\n0 = \"best\"\n")
            .starts_with("p.toml:2:5: unknown policy `best`, expected one of")
    );
    assert!(refused("[policies]\n00 = \"lru\"\n").contains("priority \"00\": expected a whole number"));
    assert!(refused("[policies]\n0 = \"lru\"\n0 = \"mru\"\n").starts_with("p.toml:3:1: duplicate key"));
    let backwards = "[[file]]\nglob = \"*\"\ntemporary = { first = 3, last = 2, priority = -1 }\n";
    assert!(refused(backwards).starts_with("p.toml:3:13: blocks 3 to 2"));
    assert!(refused("programs = [\n").starts_with("p.toml:"));
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
    assert_eq!(profile.files.len(), 3);
    assert_eq!(profile.rule(Path::new("/x/journal")).unwrap().temporary.unwrap().last, 15);
}

#[test]
fn what_is_read_in_which_order() {
    let text =
        "prefetch = \"list:cscope.files\"\n[[file]]\nglob = \"cscope.out\"\nprefetch = \"sequential\"\n";
    let profile = Profile::parse("x", text).unwrap();
    assert_eq!(profile.prefetch, Some(Prefetch::List("cscope.files".into())));
    assert_eq!(profile.files[0].prefetch, Some(Prefetch::Sequential));
    assert_eq!(Profile::parse("x", "prefetch = \"glob order\"").unwrap().prefetch, Some(Prefetch::GlobOrder));
    let refuse = |text| Profile::parse("x.toml", text).unwrap_err().to_string();
    let unknown = refuse("programs = [\"a\"]\nprefetch = \"backwards\"\n");
    assert!(unknown.starts_with("x.toml:2:12: prefetch \"backwards\": expected \"sequential\""), "{unknown}");
    let single = refuse("[[file]]\nglob = \"*\"\nprefetch = \"glob order\"\n");
    assert!(single.starts_with("x.toml:3:12: prefetch glob order: expected \"sequential\""), "{single}");
}
