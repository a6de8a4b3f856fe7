//! Traces that papers use, counted as independent programs count them. Skipped loudly where they do
//! not exist.

use pantler_trace::{Format, Options, Prepared, ReadOptions, Reader, Report, Unit, prepare, testing};

fn prepared(name: &str, options: &Options) -> Option<(Prepared, Report)> {
    Some(prepare(&testing::locate(name)?, options).unwrap_or_else(|error| panic!("{error}")))
}

/// A trace, its format as guessed, and what is in it.
const TRACES: [(&str, Format, usize, u32); 14] = [
    ("lirs/cs.trace.gz", Format::Lirs, 6_781, 1_409),
    ("lirs/gli.trace.gz", Format::Lirs, 6_015, 2_529),
    ("lirs/cpp.trace.gz", Format::Lirs, 9_047, 1_223),
    ("lirs/multi3.trace.gz", Format::Lirs, 30_241, 7_454),
    ("lirs/2_pools.trace.gz", Format::Lirs, 100_000, 9_939),
    ("lirs/loop.trace.gz", Format::Lirs, 505_500, 1_011),
    ("arc/OLTP.lis.zst", Format::Arc, 914_145, 186_880),
    ("arc/P3.lis.zst", Format::Arc, 3_912_296, 762_543),
    ("block/cloudPhysicsIO.csv.gz", Format::Csv, 113_872, 48_974),
    ("block/cloudPhysicsIO.vscsi.xz", Format::Vscsi, 113_872, 48_974),
    ("block/msr-cambridge1-sample.csv.gz", Format::Msr, 1_000, 713),
    ("block/block_traces_1.csv.gz", Format::Csv, 999, 625),
    ("kv/orm-night.trace.xz", Format::Keys32, 5_000_000, 86_466),
    ("kv/conversation_trace.jsonl.gz", Format::HashIds, 288_500, 182_790),
];

#[test]
fn requests_and_blocks_are_as_many_as_others_count() {
    for (name, format, requests, distinct) in TRACES {
        let Some((trace, report)) = prepared(name, &Options::default()) else { continue };
        assert_eq!(report.format, format, "{name}");
        assert_eq!((trace.requests().len(), trace.distinct()), (requests, distinct), "{name}");
        trace.validate();
    }
}

#[test]
fn text_and_binary_of_one_trace_are_one_trace() {
    for unit in [Unit::Object, Unit::Block(4096)] {
        let options = Options { unit: Some(unit), ..Options::default() };
        let [csv, vscsi] = ["block/cloudPhysicsIO.csv.gz", "block/cloudPhysicsIO.vscsi.xz"]
            .map(|name| prepared(name, &options).map(|found| found.0));
        let (Some(csv), Some(vscsi)) = (csv, vscsi) else { return };
        assert!(csv.requests() == vscsi.requests() && csv.blocks() == vscsi.blocks(), "{unit}");
    }
}

/// Records of 32 bytes, read as others of 24: every fourth looks right by chance.
#[test]
fn records_named_as_others_are_refused() {
    let Some(path) = testing::locate("block/cloudPhysicsIO.vscsi.xz") else { return };
    for format in [Format::OracleGeneral, Format::Keys32] {
        let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
        let message = Reader::open(&path, &options).err().unwrap().to_string();
        let expected = format!(
            ": expected {format}, and this is binary data, as vscsi: leave --format out, or name vscsi"
        );
        assert!(message.ends_with(&expected), "{message}");
    }
}

#[test]
fn blocks_of_a_kibibyte_are_half_as_many_sectors() {
    let options = Options { unit: Some(Unit::Block(1024)), ..Options::default() };
    let Some((trace, _)) = prepared("arc/P3.lis.zst", &options) else { return };
    assert!(trace.requests().len() < 3_912_296 * 6 / 10, "{}", trace.requests().len());
}
