//! Buffers that are filled one after the other.

use std::io::IoSliceMut;

/// Buffers that are filled one after the other, from pieces of any length; never with more than
/// they have room for.
///
/// ```
/// use std::io::IoSliceMut;
///
/// let (mut first, mut second) = ([0; 2], [0; 3]);
/// let mut buffers = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
/// let mut filling = pantler_origin::Filling::new(&mut buffers);
/// for piece in [&[1][..], &[2, 3, 4], &[5, 6]] {
///     filling.fill(piece);
/// }
/// assert_eq!((first, second), ([1, 2], [3, 4, 5]));
/// ```
pub struct Filling<'a, 'b> {
    buffers: &'a mut [IoSliceMut<'b>],
    index: usize,
    filled: usize,
}

impl<'a, 'b> Filling<'a, 'b> {
    /// Begins with the first buffer.
    pub fn new(buffers: &'a mut [IoSliceMut<'b>]) -> Self {
        Self { buffers, index: 0, filled: 0 }
    }

    /// Goes on where the last piece ended. What has no room is left out.
    pub fn fill(&mut self, mut bytes: &[u8]) {
        while let Some(buffer) = self.buffers.get_mut(self.index).filter(|_| !bytes.is_empty()) {
            let room = &mut buffer[self.filled..];
            let (now, later) = bytes.split_at(room.len().min(bytes.len()));
            room[..now.len()].copy_from_slice(now);
            bytes = later;
            self.filled += now.len();
            if self.filled == buffer.len() {
                (self.index, self.filled) = (self.index + 1, 0);
            }
        }
    }
}
