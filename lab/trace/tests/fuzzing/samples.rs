//! Samples of every format.

use std::io::Write;

use pantler_trace::Format;

use crate::targets::Target;

/// Small inputs that a target takes.
pub fn of(target: Target) -> Vec<Vec<u8>> {
    let texts = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    match target {
        Target::Reader(format) => of_format(format),
        Target::Guess => {
            let mut samples: Vec<Vec<u8>> = Format::all().flat_map(of_format).collect();
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(b"17\n18\n17\n").expect("memory takes everything");
            samples.push(gzip.finish().expect("memory takes everything"));
            let level = ruzstd::encoding::CompressionLevel::Fastest;
            samples.push(ruzstd::encoding::compress_to_vec(&b"17\n18\n17\n17\n17\n17\n"[..], level));
            samples.push(XZ.to_vec());
            samples
        }
        Target::Columns => texts(&[
            "owner,file,block\ncscope,a,17\ngrep,b,18\n",
            "block=lbn,size=2\nlbn,size\n17,512\n18,512\n",
            "-,time_ms,offset,size,op\nx\t1.5\t4096\t512\tw\n",
        ]),
        Target::Specification => texts(&[
            "zipf:alpha=0.8,ids=1000,requests=50,seed=1,order=shuffled,first=9",
            "uniform:ids=9,requests=50",
            "two-pool:requests=50,small=3,large=9",
            "stack-distance:ids=99,requests=50,alpha=1.1",
            "phases:(loop:ids=9,requests=50),(scan:ids=9),repeat=3",
            "mix:a=(loop:ids=9,requests=50),b=(phases:(scan:ids=9)),burst=3,turns=round",
        ]),
    }
}

/// `17 18 17`, by `xz -0 --check=crc32`.
const XZ: &[u8] = &[
    0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x01, 0x69, 0x22, 0xde, 0x36, 0x02, 0x00, 0x21, 0x01, 0x0c,
    0x00, 0x00, 0x00, 0x8f, 0x98, 0x41, 0x9c, 0x01, 0x00, 0x08, 0x31, 0x37, 0x0a, 0x31, 0x38, 0x0a, 0x31,
    0x37, 0x0a, 0x00, 0x00, 0x00, 0x00, 0xb3, 0xc4, 0x8a, 0x90, 0x00, 0x01, 0x1d, 0x09, 0x93, 0x61, 0x36,
    0xa6, 0x90, 0x42, 0x99, 0x0d, 0x01, 0x00, 0x00, 0x00, 0x00, 0x01, 0x59, 0x5a,
];

fn of_format(format: Format) -> Vec<Vec<u8>> {
    let text = |text: &str| vec![text.as_bytes().to_vec()];
    match format {
        Format::Lirs => text("17\n*\n0\r\n\n17\n18446744073709551615\n"),
        Format::Arc => text("100 3 0 0\n5 1 0 1\n7 0 0 2\n2097151 2097152 0 0\n"),
        Format::Csv => vec![
            b"owner,file,block\ncscope,index,17\ngrep,\"a, b\",17\n".to_vec(),
            b"colour;time_ms;LBN;size;op\nred;1.5;8;4096;w\nred;2;9;512;r\n".to_vec(),
            b"id,size\nabc,5\nabd,6\nabc,5\n".to_vec(),
        ],
        Format::Msr => {
            text("128166372003061629,hm,1,Read,383496192,32768,413\n128166372013061629,hm,0,Write,0,512,61\n")
        }
        Format::HashIds => text("{\"timestamp\": 3, \"hash_ids\": [0, 5]}\n{\"hash_ids\": [5], \"x\": {}}\n"),
        Format::OracleGeneral => vec![fixed(24, &[(0, 1), (4, 77), (12, 9), (16, 5)])],
        Format::Vscsi => vec![
            fixed(32, &[(4, 9), (12, 0x2a), (15, 1), (16, 8), (24, 7)]),
            fixed(40, &[(0, 0x28), (3, 2), (8, 9), (16, 8), (24, 7)]),
        ],
        Format::Keys32 => vec![fixed(4, &[(3, 7)])],
        _ => Vec::new(),
    }
}

/// A few records of fixed width with these bytes set, counted up.
fn fixed(width: usize, fields: &[(usize, u8)]) -> Vec<u8> {
    let mut bytes = vec![0; width * 6];
    for (number, record) in (0_u8..).zip(bytes.chunks_exact_mut(width)) {
        for &(at, value) in fields {
            record[at] = value;
        }
        record[fields[fields.len() - 1].0] += number;
    }
    bytes
}

/// Pieces that parsers stumble over.
pub const PIECES: [&[u8]; 16] = [
    b"\n",
    b"\r\n",
    b"\0",
    b",",
    b" ",
    b"\"",
    b"(",
    b")",
    b"=",
    b"-1",
    b"18446744073709551615",
    b"18446744073709551616",
    b"9223372036854775807",
    b"\xff\xff\xff\xff",
    b"\xff\xfe",
    b"4294967296",
];
