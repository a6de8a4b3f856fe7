//! The examples, in C and in Rust, where programs run: steered, on a mount, and without either.
//! Needs root, `/dev/fuse` and the command; says why when it cannot run.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{FILE_BYTES, Place, built, forget, number, run};

const MEMORY: &str = "20M";
const PASSES: u64 = 5;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)
}

/// Protects programs that are written with the library: their hints take effect where they run, and
/// save what the policy saves; without a connection they do the same work.
#[test]
fn ten_lines_save_a_third_of_the_reads() {
    let Some(place) = Place::new() else { return };
    let programs =
        [place.compiled("cycles", &example("cycles.c")), built("examples/cycles").display().to_string()];
    for (language, program) in ["C", "Rust"].into_iter().zip(&programs) {
        // LRU keeps nothing of a cycle that is longer than the cache.
        let (all, file) = (PASSES * FILE_BYTES, place.file(language));
        run({
            let mut alone = place.command(Path::new(program));
            alone.arg(&file);
            alone
        });
        let file = place.file(language);
        let report = place.path("report");
        place.ok(&["run", "--memory", MEMORY, "--report", &report, "--", program, &file]);
        let steered = number(&fs::read_to_string(&report).expect("a report"), "read_bytes");

        let (origin, point) =
            (place.path(&format!("origin-{language}")), place.path(&format!("point-{language}")));
        fs::create_dir(&origin).and_then(|()| fs::create_dir(&point)).expect("folders");
        fs::rename(&file, format!("{origin}/file")).expect("moved");
        place.ok(&["mount", &origin, &point, "--cache", MEMORY]);
        run({
            let mut on_mount = place.command(Path::new(program));
            on_mount.arg(format!("{point}/file"));
            on_mount
        });
        let mounted = number(&place.ok(&["stat", &point, "--json"]), "read_bytes");
        place.ok(&["umount", &point]);
        println!("{language}: of {all} bytes it reads {steered} steered, {mounted} on a mount");
        assert!(steered * 10 < all * 7 && mounted * 10 < all * 7);
        assert!(steered >= FILE_BYTES && mounted >= FILE_BYTES);
    }
}

/// Protects readers of the documentation: what it shows is what is run here.
#[test]
fn the_documentation_shows_the_examples() {
    let bindings = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder");
    let text = fs::read_to_string(bindings.join("../docs/PROGRAMS.md")).expect("a text");
    for name in ["pantler/examples/cycles.c", "pantler/examples/cycles.rs", "python/examples/cycles.py"] {
        let example = fs::read_to_string(bindings.join(name)).expect("an example");
        assert!(text.contains(&format!("\n{example}```")), "{name}");
    }
}

/// Protects programs from mistakes: each call of C tells what is wrong, and none crashes.
#[test]
fn every_call_of_c_answers() {
    let Some(place) = Place::new() else { return };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/calls.c");
    let program = place.compiled("calls", &source);
    let file = place.file("file");
    run({
        let mut alone = place.command(Path::new(&program));
        alone.args([&*file, "0"]);
        alone
    });
    forget(&file);
    place.ok(&["run", "--memory", MEMORY, "--profile", "none", "--", &program, &file, "1"]);

    // On a mount, without a run; the first pause is longer than a host waits for a word.
    let [origin, point] = ["origin", "point"].map(|name| place.path(name));
    fs::create_dir(&origin).and_then(|()| fs::create_dir(&point)).expect("folders");
    fs::rename(&file, format!("{origin}/file")).expect("moved");
    place.ok(&["mount", &origin, &point, "--cache", MEMORY]);
    run({
        let mut on_mount = place.command(Path::new(&program));
        on_mount.args([&format!("{point}/file"), "1", "12"]);
        on_mount
    });
    place.ok(&["umount", &point]);
}
