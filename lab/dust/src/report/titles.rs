//! What people call the families.

/// Families by the name that the simulator takes, and what they are called in full.
const TITLES: &[(&str, &str)] = &[
    ("2q", "2Q"),
    ("2q-simple", "2Q without ghosts"),
    ("arc", "ARC"),
    ("car", "CAR"),
    ("clock", "CLOCK"),
    ("clock-pro", "CLOCK-Pro"),
    ("clock-set", "CLOCK whose bit is set on insertion"),
    ("eelru", "EELRU"),
    ("fifo", "FIFO"),
    ("gclock", "GCLOCK"),
    ("lfu", "LFU"),
    ("lfu-aged", "LFU with ageing"),
    ("lfu-perfect", "LFU whose counts survive replacement"),
    ("lifo", "LIFO"),
    ("linux", "Linux active/inactive lists with refault"),
    ("lirs", "LIRS"),
    ("lrfu", "LRFU"),
    ("lru", "LRU"),
    ("lru-2", "LRU-2"),
    ("lru-3", "LRU-3"),
    ("lru-4", "LRU-4"),
    ("lru-k", "LRU-K"),
    ("memcached", "memcached segmented LRU"),
    ("mfu", "MFU"),
    ("mq", "MQ"),
    ("mru", "MRU"),
    ("noeviction", "no eviction: newcomers are refused"),
    ("random", "random replacement"),
    ("redis-lfu", "Redis sampled LFU"),
    ("redis-lru", "Redis sampled LRU"),
    ("s3-fifo", "S3-FIFO"),
    ("sfifo", "segmented FIFO"),
    ("sieve", "SIEVE"),
    ("slru", "segmented LRU"),
    ("two-handed-clock", "two-handed CLOCK"),
    ("w-tinylfu", "W-TinyLFU"),
];

/// What people call a family; the name itself where it is not known.
pub fn title(name: &str) -> &str {
    TITLES.iter().find(|(known, _)| *known == name).map_or(name, |(_, title)| title)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer::family::Family;

    #[test]
    fn every_family_has_a_title_of_its_own() {
        for family in Family::all() {
            assert!(TITLES.iter().any(|(name, _)| *name == family.name), "{}", family.name);
        }
        for (at, (_, title)) in TITLES.iter().enumerate() {
            assert!(TITLES[..at].iter().all(|(_, other)| other != title), "{title}");
        }
    }
}
