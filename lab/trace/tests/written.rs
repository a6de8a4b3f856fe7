//! What is written comes back.

use pantler_trace::{Content, Format, Options, ReadOptions, Reader, Request, Unit, Writer, prepare_reader};
use proptest::prelude::*;

type Trace = (Vec<Request>, Vec<String>, Vec<String>);

fn write((requests, owners, files): &Trace, content: Content) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, content);
    for request in requests {
        writer.write(request, owners, files).unwrap();
    }
    writer.finish().unwrap();
    bytes
}

fn reader(bytes: &[u8]) -> Reader {
    let bytes = std::io::Cursor::new(bytes.to_vec());
    Reader::from_read("sample", bytes, &ReadOptions::default()).unwrap()
}

fn read(bytes: &[u8]) -> (Trace, Format) {
    let mut reader = reader(bytes);
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while reader.fill(&mut batch).unwrap() {
        all.extend_from_slice(&batch);
    }
    let format = reader.format();
    let (owners, files) = reader.into_names();
    ((all, owners, files), format)
}

fn trace() -> impl Strategy<Value = Trace> {
    let near = prop_oneof![0_u64..100_000, any::<u64>().prop_map(|offset| offset >> 1)];
    let request = (0_u32..3, 0_u32..4, near, any::<u32>(), any::<bool>());
    prop::collection::vec(request, 1..60).prop_map(|fields| {
        let requests = fields.iter().map(|&(owner, file, offset, length, write)| Request {
            owner,
            file,
            object: offset,
            objects: 1,
            offset,
            length,
            write,
        });
        let names = |count: usize| (0..count).map(|n| format!("name \"{n}\", ä")).collect();
        (requests.collect(), names(3), names(4))
    })
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![Just(Content::Ranges), Just(Content::Keys), Just(Content::KeyedRanges)]
}

/// With names by number in order of first use, as readers give them.
fn by_name((requests, owners, files): &Trace) -> Vec<(String, String, u64, u32, bool)> {
    let name = |names: &[String], at: u32| names[at as usize].clone();
    let each =
        requests.iter().map(|r| (name(owners, r.owner), name(files, r.file), r.object, r.length, r.write));
    each.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_written_comes_back(trace in trace(), content in content()) {
        let bytes = write(&trace, content);
        let (back, guessed) = read(&bytes);
        prop_assert_eq!(guessed, Format::Csv);
        prop_assert_eq!(by_name(&back), by_name(&trace));
        let few = Options { references_max: Some(5), ..Options::default() };
        prop_assert_eq!(prepare_reader(reader(&bytes), &few).unwrap().1.unit, Unit::Object);
    }
}

/// Sectors of a disk: counted as objects, several in a row, and still ranges of bytes.
#[test]
fn what_counts_as_objects_still_does_when_it_comes_back() {
    let request = |sector: u64, sectors: u32| Request {
        object: sector,
        objects: sectors,
        offset: sector * 512,
        length: sectors * 512,
        ..Request::default()
    };
    let trace = (vec![request(7, 16), request(8, 1), request(100, 8)], Vec::new(), Vec::new());
    let bytes = write(&trace, Content::KeyedRanges);
    let prepared = |unit: Option<Unit>| {
        prepare_reader(reader(&bytes), &Options { unit, ..Options::default() }).unwrap().0
    };
    let objects = prepared(None);
    assert_eq!((objects.unit(), objects.requests().len(), objects.distinct()), (Unit::Object, 25, 24));
    assert!(objects.owner_names().is_empty() && objects.file_names().is_empty());
    let blocks = prepared(Some(Unit::Block(4096)));
    assert_eq!(blocks.requests(), [0, 1, 2, 1, 3, 4]);
}
