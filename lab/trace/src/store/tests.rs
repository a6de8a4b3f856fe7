//! What is saved comes back; what is not as it was saved is refused.

use super::*;
use crate::{Block, PreparedBuilder};

fn sample() -> Prepared {
    let mut builder = PreparedBuilder::new(Unit::Block(4096));
    for n in 0..500_u64 {
        let block = Block { file: (n % 3) as u32, index: n * n % 97 };
        builder.reference((n % 2) as u32, block, n as u32).unwrap();
    }
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    builder.finish(names(&["cscope", "grep"]), names(&["a", "b", "ä"]))
}

fn same(one: &Prepared, two: &Prepared) {
    assert_eq!(one.requests(), two.requests());
    assert_eq!(one.next_uses(), two.next_uses());
    assert_eq!((one.owners(), one.owner_names()), (two.owners(), two.owner_names()));
    assert_eq!((one.files(), one.file_names()), (two.files(), two.file_names()));
    assert_eq!((one.blocks(), one.sizes(), one.unit()), (two.blocks(), two.sizes(), two.unit()));
    assert_eq!(one.equal_bytes(), two.equal_bytes());
}

#[test]
fn what_is_saved_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.prepared");
    let plain = Prepared::from_ids([]);
    let mut equal = PreparedBuilder::new(Unit::Object);
    equal.plain(&[7, 8, 7], &[4096; 3]).unwrap();
    let equal = equal.finish(Vec::new(), Vec::new());
    assert_eq!((equal.sizes(), equal.equal_bytes()), (None, Some(4096)));
    for trace in [sample(), Prepared::from_ids([5, 6, 5, u64::MAX]), plain, equal] {
        // Without next uses, then with them.
        for _ in 0..2 {
            trace.save(&path, "about").unwrap();
            let (back, about) = Prepared::load(&path).unwrap();
            assert_eq!(about, "about");
            same(&back, &trace);
            back.validate();
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left behind");
}

#[test]
fn forgotten_blocks_come_back_as_ids() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.prepared");
    let mut trace = sample();
    trace.forget_blocks();
    trace.save(&path, "").unwrap();
    let (back, _) = Prepared::load(&path).unwrap();
    back.validate();
    assert!(back.blocks().iter().copied().eq(0..u64::from(trace.distinct())));
    assert_eq!((back.requests(), back.files()), (trace.requests(), None));
}

#[test]
fn every_cut_and_every_damaged_byte_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.prepared");
    let trace = Prepared::from_ids([1, 2, 1, 3, 2]);
    trace.next_uses();
    trace.save(&path, "").unwrap();
    let bytes = fs::read(&path).unwrap();
    let refused = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let error = Prepared::load(&path).expect_err("refused");
        assert!(matches!(error, TraceError::Prepared { .. }), "{error}");
        error.to_string()
    };
    for length in 0..bytes.len() {
        refused(&bytes[..length]);
    }
    refused(&[&bytes[..], &[0]].concat());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        refused(&damaged);
    }
    assert!(refused(b"").contains("shorter than its header"));
    let foreign = [&b"no trace"[..], &[0; 90]].concat();
    assert!(refused(&foreign).contains("is no prepared trace: prepare the trace again"));
}

/// A file with right checksums, and numbers that would lead out of the arrays.
#[test]
fn numbers_that_break_the_rules_are_refused_though_checksums_fit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.prepared");
    let trace = Prepared::from_ids([1, 2, 1, 3, 2, 9]);
    trace.next_uses();
    trace.save(&path, "").unwrap();
    let load = |bytes: Vec<u8>| {
        fs::write(&path, sealed(bytes)).unwrap();
        Prepared::load(&path)
    };
    let bytes = fs::read(&path).unwrap();
    assert!(load(bytes.clone()).is_ok());
    for (at, value, rule) in [(64, 1, "P1"), (68, 7, "P1"), (88, 0, "P2"), (88, 6, "P2"), (92, 5, "P2")] {
        let mut wrong = bytes.clone();
        wrong[at] = value;
        let message = load(wrong).unwrap_err().to_string();
        assert!(message.contains(rule), "{at}: {message}");
    }
    for (at, value) in [(16, 200), (24, 200), (12, 255), (32, 3), (40, 255), (23, 1)] {
        let mut wrong = bytes.clone();
        wrong[at] = value;
        let message = load(wrong).unwrap_err().to_string();
        assert!(message.contains("its header"), "{at}: {message}");
    }
}

#[test]
fn sizes_that_are_said_twice_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.prepared");
    // This one has blocks of 4,096 bytes and a column of sizes: neither leaves room for a size of
    // every object.
    sample().save(&path, "").unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[36] = 1;
    fs::write(&path, sealed(bytes)).unwrap();
    assert!(Prepared::load(&path).unwrap_err().to_string().contains("its header"));
}

/// Files of version 1 do not know how large objects of one size are.
#[test]
fn files_of_the_version_before_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.prepared");
    sample().save(&path, "").unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 1;
    fs::write(&path, sealed(bytes)).unwrap();
    let message = Prepared::load(&path).unwrap_err().to_string();
    assert!(
        message.contains("version 1, and this program reads version 2: prepare the trace again"),
        "{message}"
    );
}

#[test]
fn owners_without_names_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.prepared");
    let mut trace = Prepared::from_ids([1, 2]);
    trace.owners = Some(vec![0, 0].into());
    trace.save(&path, "").unwrap();
    assert!(Prepared::load(&path).unwrap_err().to_string().contains("rule P4"));
}

#[test]
fn the_folder_stays_below_its_bound() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..4 {
        fs::write(folder.path().join(format!("{n}.prepared")), vec![0; 100]).unwrap();
    }
    fs::write(folder.path().join("other"), vec![0; 1000]).unwrap();
    trim(folder.path(), 250);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    trim(folder.path(), 0);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "the newest one and what is not ours");
}
