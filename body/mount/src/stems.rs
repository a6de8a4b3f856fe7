//! What tiers call versions of files: the same for every mount of one origin.

use pantler_origin::{Look, Tag, Time, Version};
use pantler_tier::{Seal, Stem};

/// How versions of files are called in tiers.
pub(crate) struct Stems {
    secret: Option<[u8; 32]>,
    origin_name: Option<String>,
    /// What names an object store.
    identity: Option<[u8; 16]>,
    block_bytes: u32,
}

impl Stems {
    /// For blocks that `seal` protects. `origin_name` stands for the origin where several machines
    /// see it differently, else the [identity](pantler_origin::Origin::identity) of a store, or the
    /// device of a directory.
    pub(crate) fn new(
        seal: &Seal,
        origin_name: Option<String>,
        identity: Option<[u8; 16]>,
        block_bytes: u32,
    ) -> Self {
        Self { secret: seal.stem_secret(), origin_name, identity, block_bytes }
    }

    /// The stem of what was looked at. A version that could still change without a trace has none.
    pub(crate) fn of(&self, look: &Look) -> Option<Stem> {
        if !look.settled {
            return None;
        }
        let (secret, block_bytes) = (self.secret.as_ref(), self.block_bytes);
        let Version { device, inode, born, size, modified, changed, tag } = look.version;
        let time =
            |time: Time| [time.seconds.to_le_bytes(), u64::from(time.nanoseconds).to_le_bytes()].concat();
        let device = device.to_le_bytes();
        let (kind, origin) = match (&self.origin_name, &self.identity) {
            (Some(name), _) => (b"name", name.as_bytes()),
            (None, Some(identity)) => (b"shop", &identity[..]),
            (None, None) => (b"disk", &device[..]),
        };
        if let Some(Tag(tag)) = tag {
            return Some(Stem::new(secret, block_bytes, [&b"object"[..], kind, origin, &tag]));
        }
        let born = born.map_or(Vec::new(), time);
        let numbers = [inode.to_le_bytes(), size.to_le_bytes()].concat();
        let (modified, changed) = (time(modified), time(changed));
        let parts: [&[u8]; 6] = [kind, origin, &numbers, &born, &modified, &changed];
        Some(Stem::new(secret, block_bytes, parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(change: impl FnOnce(&mut Version)) -> Look {
        let mut version = pantler_origin::Attributes::default().version();
        change(&mut version);
        Look { version, settled: true }
    }

    #[test]
    fn whatever_makes_a_version_makes_its_name() {
        let stems = Stems::new(&Seal::Checksum, None, None, 4096);
        let time = Time { seconds: 1, nanoseconds: 2 };
        let same = stems.of(&look(|_| {})).unwrap();
        let changes: [fn(&mut Version, Time); 7] = [
            |version, _| version.device += 1,
            |version, _| version.inode += 1,
            |version, _| version.size += 1,
            |version, time| version.born = Some(time),
            |version, time| version.modified = time,
            |version, time| version.changed = time,
            |version, _| version.tag = Some(Tag([1; 16])),
        ];
        for (number, change) in changes.iter().enumerate() {
            assert_ne!(stems.of(&look(|version| change(version, time))), Some(same), "part {number}");
        }
        assert_eq!(stems.of(&look(|_| {})), Some(same));
        let unsettled = Look { settled: false, ..look(|_| {}) };
        assert_eq!(stems.of(&unsettled), None, "not before the tick has passed");
        let named = Stems::new(&Seal::Checksum, Some("data".into()), None, 4096);
        assert_ne!(named.of(&look(|_| {})), Some(same));
        assert_eq!(named.of(&look(|version| version.device += 1)), named.of(&look(|_| {})), "any machine");
    }
}
