//! Samples, changed a little.

use pantler_trace::generate::Draws;

/// One of the samples, changed in a few places, some by such pieces.
pub fn mutated(samples: &[Vec<u8>], pieces: &[&[u8]], random: &mut Draws) -> Vec<u8> {
    let some = |random: &mut Draws| samples[random.below(samples.len() as u64) as usize].clone();
    let mut bytes = some(random);
    for _ in 0..random.below(6) {
        let length = bytes.len() as u64;
        let at = random.below(length + 1) as usize;
        let to = at + random.below(length - at as u64 + 1) as usize;
        match random.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.bits() as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..to.min(at + 16))),
            4 => {
                let copy = bytes[at..to].to_vec();
                bytes.splice(at..at, copy);
            }
            5 => {
                let piece = pieces[random.below(pieces.len() as u64) as usize];
                bytes.splice(at..at, piece.iter().copied());
            }
            6 => {
                let other = some(random);
                let from = random.below(other.len() as u64 + 1) as usize;
                bytes.splice(at..to, other[from..].iter().copied());
            }
            _ => {
                let noise: Vec<u8> = (0..random.below(40)).map(|_| random.bits() as u8).collect();
                bytes.splice(at..at, noise);
            }
        }
        bytes.truncate(8192);
    }
    bytes
}
