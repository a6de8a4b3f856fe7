//! What is read again, and in which order. No I/O.

/// What could be read of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Which file, by its place in the snapshot.
    pub file: usize,
    /// The owner's priority for it.
    pub priority: i32,
    /// Its device.
    pub device: u64,
    /// Ranges of bytes that are not cached, ascending, with the place of each on the device.
    pub missing: Vec<(u64, u64, Option<u64>)>,
}

/// Bytes that are asked for at once.
pub const PIECE_BYTES: u64 = 2 << 20;

/// Bytes of a file that are read in one go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub file: usize,
    pub start: u64,
    pub end: u64,
    device: u64,
    place: u64,
}

/// Pieces in the order of the disk, and bytes that `room` has no place for. Files of higher
/// priority have the room first, and of one priority those that the snapshot has first; the last
/// that gets any may get its beginning only. Ranges without a known place come in the order of the
/// snapshot, before the others.
pub fn pieces(mut wanted: Vec<Wanted>, room: u64) -> (Vec<Piece>, u64) {
    wanted.sort_by_key(|one| (std::cmp::Reverse(one.priority), one.file));
    // Of sparse files there may be more bytes than fit into 64 bits.
    let (mut left, mut left_out, mut pieces) = (room, 0u64, Vec::new());
    for one in wanted {
        for (start, end, place) in one.missing {
            let taken = left.min(end - start);
            left -= taken;
            left_out = left_out.saturating_add(end - start - taken);
            for begin in (start..start + taken).step_by(PIECE_BYTES as usize) {
                pieces.push(Piece {
                    file: one.file,
                    start: begin,
                    end: (start + taken).min(begin + PIECE_BYTES),
                    device: one.device,
                    place: place.map_or(0, |place| place + (begin - start)),
                });
            }
        }
    }
    pieces.sort_by_key(|piece| (piece.device, piece.place, piece.file, piece.start));
    (pieces, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wanted(file: usize, priority: i32, missing: &[(u64, u64, Option<u64>)]) -> Wanted {
        Wanted { file, priority, device: 1, missing: missing.to_vec() }
    }

    fn read(pieces: &[Piece]) -> Vec<(usize, u64, u64)> {
        pieces.iter().map(|piece| (piece.file, piece.start, piece.end)).collect()
    }

    #[test]
    fn priorities_get_the_room_and_the_disk_gives_the_order() {
        let all = vec![
            wanted(0, 0, &[(0, 100, Some(900))]),
            wanted(1, 7, &[(50, 90, Some(300)), (200, 260, Some(100))]),
            wanted(2, 0, &[(0, 10, None)]),
        ];
        let (pieces, left_out) = pieces(all.clone(), 1000);
        assert_eq!((read(&pieces), left_out), (vec![(2, 0, 10), (1, 200, 260), (1, 50, 90), (0, 0, 100)], 0));
        let (pieces, left_out) = super::pieces(all.clone(), 130);
        assert_eq!((read(&pieces), left_out), (vec![(1, 200, 260), (1, 50, 90), (0, 0, 30)], 80));
        assert_eq!(super::pieces(all, 0), (Vec::new(), 210));
    }

    proptest! {
        #[test]
        fn every_byte_is_read_once_or_left_out(
            files in prop::collection::vec((-3..3i32, prop::collection::vec((1..9u64 << 20, 0..1u64 << 40), 0..4)), 0..9),
            room in 0..64u64 << 20,
        ) {
            let mut all = Vec::new();
            for (file, (priority, ranges)) in files.into_iter().enumerate() {
                let mut end = 0;
                let missing = ranges.into_iter().map(|(bytes, place)| {
                    let start = end + 4096;
                    end = start + bytes;
                    (start, end, Some(place))
                });
                all.push(Wanted { file, priority, device: 1, missing: missing.collect() });
            }
            let total: u64 = all.iter().flat_map(|one| &one.missing).map(|(start, end, _)| end - start).sum();
            let (pieces, left_out) = pieces(all, room);
            let taken: u64 = pieces.iter().map(|piece| piece.end - piece.start).sum();
            prop_assert_eq!(taken, total.min(room));
            prop_assert_eq!(left_out, total - taken);
            prop_assert!(pieces.iter().all(|piece| (1..=PIECE_BYTES).contains(&(piece.end - piece.start))));
            let mut spans = read(&pieces);
            spans.sort_unstable();
            prop_assert!(spans.windows(2).all(|two| two[0].0 != two[1].0 || two[0].2 <= two[1].1));
        }
    }
}
