//! The kernel's table of mounts, `mountinfo`.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// What is mounted somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedAt {
    /// Its number.
    pub id: u32,
    /// Its device, as events write it.
    pub dev: u32,
    /// What of the file system is mounted.
    pub root: PathBuf,
    /// Where.
    pub place: PathBuf,
    /// Type of the file system: `ext4`, `overlay`.
    pub kind: String,
    /// Options of the file system, separated by commas.
    options: OsString,
}

/// The mounts that this process sees, each after what it may cover.
///
/// # Errors
/// When the table cannot be read.
pub fn mounts() -> io::Result<Vec<MountedAt>> {
    Ok(parse(&std::fs::read("/proc/self/mountinfo")?))
}

/// The same of the text of `mountinfo`. Bytes: a mount point that is no UTF-8 hides no other.
pub fn parse(table: &[u8]) -> Vec<MountedAt> {
    table.split(|&byte| byte == b'\n').filter_map(MountedAt::parse).collect()
}

/// Whether the kernel can mount that type of file system.
pub fn has_type(kind: &str) -> bool {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    known.lines().any(|line| line.split_ascii_whitespace().next_back() == Some(kind))
}

/// The device number as events write it.
pub fn kernel_dev(st_dev: u64) -> u32 {
    rustix::fs::major(st_dev) << 20 | rustix::fs::minor(st_dev)
}

/// What mounts of Pantler are called in the table.
pub const PANTLER_TYPE: &str = "fuse.pantler";

impl MountedAt {
    /// Whether it is a mount of Pantler.
    pub fn is_pantler(&self) -> bool {
        self.kind == PANTLER_TYPE
    }

    /// Whether it lies over other file systems.
    pub fn is_overlay(&self) -> bool {
        self.kind == "overlay"
    }

    /// Whether another machine serves it: what is read of it is no read of a disk here.
    pub fn is_remote(&self) -> bool {
        ["nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "afs"].contains(&self.kind.as_str())
    }

    /// Whether a process serves it: to open it waits for that process, which may stand still.
    pub fn is_served(&self) -> bool {
        self.kind.starts_with("fuse")
    }

    /// Whether the file system has this option.
    pub fn has_option(&self, name: &str) -> bool {
        self.options().any(|option| option == name.as_bytes())
    }

    /// The directory that takes the writes of an overlay.
    pub fn upper(&self) -> Option<PathBuf> {
        self.options().find_map(|option| option.strip_prefix(b"upperdir=")).map(unescape)
    }

    fn options(&self) -> impl Iterator<Item = &[u8]> {
        self.options.as_bytes().split(|&byte| byte == b',')
    }

    fn parse(line: &[u8]) -> Option<MountedAt> {
        let text = |word| std::str::from_utf8(word).ok();
        let mut words = line.split(|&byte| byte == b' ');
        let id = text(words.next()?)?.parse().ok()?;
        let (major, minor) = text(words.nth(1)?)?.split_once(':')?;
        let dev = major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?;
        let (root, place) = (unescape(words.next()?), unescape(words.next()?));
        // Optional fields end with a dash; type, source and options of the file system follow.
        let mut of_device = words.skip_while(|&word| word != b"-").skip(1);
        let kind = of_device.next().and_then(text).unwrap_or_default().to_owned();
        let options = OsString::from_vec(of_device.nth(1).unwrap_or_default().to_vec());
        Some(MountedAt { id, dev, root, place, kind, options })
    }
}

/// A path as the tables write it. They escape space, tab, newline and backslash as three octal
/// digits, and leave every other byte as it is, text or not.
fn unescape(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| byte == b'\\');
        let code = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(code.unwrap_or(byte));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_as_they_were() {
        for (written, meant) in [
            (&br"a\134b\9"[..], &br"a\b\9"[..]),
            (br"\011\012\040", b"\t\n "),
            (b"\\", b"\\"),
            (br"\04", br"\04"),
            (br"\999", br"\999"),
            (b"caf\xe9\\040\xff", b"caf\xe9 \xff"),
        ] {
            assert_eq!(unescape(written).as_os_str().as_bytes(), meant);
        }
    }

    #[test]
    fn a_mount_line_is_read() {
        let line = br"36 35 254:3 / /mnt/a\040b rw,noatime master:1 - ext4 /dev/root rw";
        let mount = MountedAt::parse(line).expect("a mount");
        assert_eq!((mount.id, mount.dev, &mount.place), (36, 254 << 20 | 3, &PathBuf::from("/mnt/a b")));
        assert!(!mount.is_served());
        assert_eq!((mount.kind.as_str(), mount.upper()), ("ext4", None));
        let fuse = b"76 27 0:49 / /m rw,nosuid - fuse.pantler /data rw";
        assert!(MountedAt::parse(fuse).expect("a mount").is_served());
        assert!(MountedAt::parse(b"36 35 x / /").is_none() && MountedAt::parse(b"").is_none());
        // What is no text is a name like any other.
        let odd = MountedAt::parse(b"36 35 254:3 / /mnt/caf\xe9 rw").expect("a mount");
        assert_eq!(odd.place.as_os_str().as_encoded_bytes(), b"/mnt/caf\xe9");
    }

    #[test]
    fn of_an_overlay_the_upper_directory_is_known() {
        let line = br"44 27 0:39 / /m rw,relatime - overlay none rw,lowerdir=/l,upperdir=/a\040b,workdir=/w";
        let mount = MountedAt::parse(line).expect("a mount");
        assert!(mount.is_overlay());
        assert_eq!(mount.upper(), Some(PathBuf::from("/a b")));
    }
}
