//! A folder of prepared traces: found again, made again, never in the way.

use std::fs;
use std::path::Path;

use pantler_trace::{Format, Options, Prepared, ReadOptions, TraceError, Unit, prepare};

fn options(folder: &Path) -> Options {
    Options { cache: Some(folder.join("cache")), ..Options::default() }
}

fn kept(folder: &Path) -> Vec<std::path::PathBuf> {
    let files = fs::read_dir(folder.join("cache")).into_iter().flatten().flatten();
    files.map(|file| file.path()).collect()
}

#[test]
fn the_second_time_is_mapped_and_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    fs::write(&trace, "5\n6\nx\n5\n").unwrap();
    let mut options = options(folder.path());
    options.read.skip_bad_lines = true;
    let (first, report) = prepare(&trace, &options).unwrap();
    let (second, again) = prepare(&trace, &options).unwrap();
    assert_eq!((first.requests(), first.blocks()), (second.requests(), second.blocks()));
    assert!(!report.cached && again.cached);
    assert_eq!((again.format, again.skipped, again.requests), (Format::Lirs, 1, 3));
    assert_eq!((again.first_bad, again.note), (report.first_bad, report.note));
    assert_eq!(kept(folder.path()).len(), 1);
    // Other options, another trace.
    let few = Options { references_max: Some(2), ..options.clone() };
    assert_eq!(prepare(&trace, &few).unwrap().0.requests(), [0, 1]);
    // A changed file is another file.
    fs::write(&trace, "5\n6\n7\n8\n").unwrap();
    let (changed, report) = prepare(&trace, &options).unwrap();
    assert_eq!((changed.distinct(), report.cached), (4, false));
    // By its own name it is a trace, too.
    let (loaded, report) = prepare(&kept(folder.path())[0], &Options::default()).unwrap();
    assert!(report.cached && loaded.requests().len() <= 4);
    let wrong = Options { unit: Some(Unit::Block(4096)), ..Options::default() };
    let message = prepare(&kept(folder.path())[0], &wrong).unwrap_err().to_string();
    assert!(message.contains("prepare the trace again for another unit"), "{message}");
}

#[test]
fn a_damaged_one_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    fs::write(&trace, "5\n6\n5\n").unwrap();
    let options = options(folder.path());
    prepare(&trace, &options).unwrap();
    let file = kept(folder.path()).remove(0);
    let mut bytes = fs::read(&file).unwrap();
    bytes[70] ^= 1;
    fs::write(&file, &bytes).unwrap();
    assert!(matches!(Prepared::load(&file), Err(TraceError::Prepared { .. })));
    let (made, report) = prepare(&trace, &options).unwrap();
    assert_eq!((made.requests(), report.cached), (&[0, 1, 0][..], false));
    assert!(prepare(&trace, &options).unwrap().1.cached);
}

#[test]
fn a_folder_that_cannot_be_written_is_a_note() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    fs::write(&trace, "5\n6\n5\n").unwrap();
    let options = Options { cache: Some(trace.join("below a file")), ..Options::default() };
    let (made, report) = prepare(&trace, &options).unwrap();
    assert_eq!(made.distinct(), 2);
    let note = report.note.unwrap();
    assert!(note.starts_with("the prepared trace is not kept: cannot create"), "{note}");
}

#[test]
fn a_specification_stands_in_the_place_of_a_file() {
    let (made, report) = prepare("loop:ids=3,requests=7".as_ref(), &Options::default()).unwrap();
    assert_eq!((made.requests(), report.format), (&[0, 1, 2, 0, 1, 2, 0][..], Format::Generated));
    let few = Options { references_max: Some(2), ..Options::default() };
    assert_eq!(prepare("loop:ids=3,requests=7".as_ref(), &few).unwrap().0.requests(), [0, 1]);
    let message = prepare("loop:ids=3".as_ref(), &Options::default()).unwrap_err().to_string();
    assert!(message.contains("requests=NUMBER"), "{message}");
    let blocks = Options { unit: Some(Unit::Block(512)), ..Options::default() };
    assert!(prepare("loop:ids=3,requests=7".as_ref(), &blocks).is_err());
}

#[test]
fn blocks_of_what_has_no_bytes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let blocks = Options { unit: Some(Unit::Block(4096)), ..Options::default() };
    fs::write(&trace, "5\n6\n5\n").unwrap();
    let message = prepare(&trace, &blocks).unwrap_err().to_string();
    assert_eq!(
        message,
        "unit \"block:4096\": expected object: this lirs trace gives keys and no ranges of bytes"
    );
    fs::write(&trace, "block\n5\n").unwrap();
    assert!(prepare(&trace, &blocks).is_err());
    // A request of several blocks is several references; one of no bytes is one.
    fs::write(&trace, "offset,size\n4095,2\n8192,0\n0,12288\n").unwrap();
    let (made, _) = prepare(&trace, &blocks).unwrap();
    assert_eq!(made.requests(), [0, 1, 2, 0, 1, 2]);
    fs::write(&trace, "offset,size\n0,4294967295\n").unwrap();
    let small = Options { unit: Some(Unit::Block(512)), read: ReadOptions::default(), ..Options::default() };
    let message = prepare(&trace, &small).unwrap_err().to_string();
    assert!(message.contains("larger blocks: a request of 4294967295 bytes"), "{message}");
}
