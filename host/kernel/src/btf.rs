//! Where the kernel's structs keep their fields, as its own type information says (BTF).
//!
//! ```text
//!   header | types: name, kind, members ... | strings
//! ```
//!
//! Each type is three numbers and what its kind adds. Types are counted from 1 and refer to each
//! other by that number. Only structs, unions and parameters of functions are looked at here; the
//! other kinds are stepped over. Source: Documentation/bpf/btf.rst of the kernel.

use std::fs;
use std::path::Path;

use crate::KernelError;

/// Where a running kernel shows its types.
const PLACE: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
/// Structs within structs that are looked through for a member: real ones nest three deep.
const NESTED_MAX: u32 = 16;

const STRUCT: u32 = 4;
const UNION: u32 = 5;
const CONST: u32 = 10;
const FUNCTION: u32 = 12;
const PROTOTYPE: u32 = 13;

/// Bytes that a kind adds to its three numbers; `None` for one that is not known.
fn tail_bytes(kind: u32, members: usize) -> Option<usize> {
    match kind {
        // Numbers, variables, and tags of declarations.
        1 | 14 | 17 => Some(4),
        // Arrays.
        3 => Some(12),
        // Enumerations.
        6 | PROTOTYPE => Some(8 * members),
        // Sections, and enumerations of 64 bits.
        STRUCT | UNION | 15 | 19 => Some(12 * members),
        0..19 => Some(0),
        _ => None,
    }
}

/// The types of a kernel.
#[derive(Debug)]
pub struct Btf {
    bytes: Vec<u8>,
    /// Where each type begins; type 1 is the first.
    types: Vec<usize>,
    strings: usize,
}

/// One type: its name, what it is, and how many members follow.
#[derive(Debug, Clone, Copy)]
struct Type {
    name: u32,
    kind: u32,
    members: usize,
    has_bit_fields: bool,
    /// The type that it refers to, or its size.
    refers_to: u32,
    /// Where its members begin.
    tail: usize,
}

impl Btf {
    /// The types of the running kernel.
    ///
    /// # Errors
    /// [`KernelError::Missing`] where the kernel was built without them.
    pub fn running() -> Result<Btf, KernelError> {
        let missing = |why: &str| KernelError::Missing {
            what: "type information of the kernel",
            remedy: format!("{PLACE}: {why}; run a kernel with CONFIG_DEBUG_INFO_BTF"),
        };
        let bytes = fs::read(Path::new(PLACE)).map_err(|error| missing(&error.to_string()))?;
        Btf::parse(bytes).ok_or_else(|| missing("not in a known form"))
    }

    /// Reads types from their bytes; `None` where these are cut off or of another form.
    pub fn parse(bytes: Vec<u8>) -> Option<Btf> {
        if u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?) != MAGIC {
            return None;
        }
        let header = |at: usize| number(&bytes, at).map(|number| number as usize);
        let (length, first, types_length) = (header(4)?, header(8)?, header(12)?);
        let begin = length.checked_add(first)?;
        let end = begin.checked_add(types_length)?;
        let strings = length.checked_add(header(16)?)?;
        if end > bytes.len() || strings > bytes.len() {
            return None;
        }
        let mut btf = Btf { bytes, types: Vec::new(), strings };
        let mut at = begin;
        while at < end {
            let found = btf.read(at)?;
            btf.types.push(at);
            at = at.checked_add(12 + tail_bytes(found.kind, found.members)?)?;
        }
        (at == end).then_some(btf)
    }

    /// Bytes from the beginning of a struct to one of its members, also to one in a struct or union
    /// without a name within it.
    pub fn offset(&self, structure: &str, member: &str) -> Option<u32> {
        let structs = self.named(structure).filter(|it| matches!(it.kind, STRUCT | UNION));
        structs.filter_map(|it| self.member_offset(it, member, NESTED_MAX)).next().map(|bits| bits / 8)
    }

    /// The names of a function's parameters, in order; static functions are known, too, unless they
    /// were inlined everywhere.
    pub fn parameters(&self, function: &str) -> Option<Vec<String>> {
        let function = self.named(function).find(|it| it.kind == FUNCTION)?;
        let prototype = self.of(function.refers_to).filter(|it| it.kind == PROTOTYPE)?;
        (0..prototype.members)
            .map(|index| Some(self.text(number(&self.bytes, prototype.tail + 8 * index)?)?.to_owned()))
            .collect()
    }

    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Type> + 'a {
        let types = self.types.iter().filter_map(|&at| self.read(at));
        types.filter(move |it| it.name != 0 && self.text(it.name) == Some(name))
    }

    /// Bits from the beginning of a struct to a member.
    fn member_offset(&self, structure: Type, member: &str, nested: u32) -> Option<u32> {
        let fields = (0..structure.members).filter_map(|index| {
            let at = structure.tail + 12 * index;
            let bits = number(&self.bytes, at + 8)?;
            let bits = if structure.has_bit_fields { bits & 0xff_ffff } else { bits };
            Some((number(&self.bytes, at)?, number(&self.bytes, at + 4)?, bits))
        });
        for (name, id, bits) in fields {
            if name != 0 && self.text(name) == Some(member) {
                return Some(bits);
            }
            let within = (name == 0 && nested > 0).then(|| self.unqualified(id)).flatten();
            let within = within.filter(|it| matches!(it.kind, STRUCT | UNION));
            if let Some(found) = within.and_then(|it| self.member_offset(it, member, nested - 1)) {
                return bits.checked_add(found);
            }
        }
        None
    }

    /// A type without `const` before it.
    fn unqualified(&self, id: u32) -> Option<Type> {
        let found = self.of(id)?;
        if found.kind == CONST { self.of(found.refers_to) } else { Some(found) }
    }

    fn of(&self, id: u32) -> Option<Type> {
        self.read(*self.types.get((id as usize).checked_sub(1)?)?)
    }

    fn read(&self, at: usize) -> Option<Type> {
        let info = number(&self.bytes, at + 4)?;
        Some(Type {
            name: number(&self.bytes, at)?,
            kind: info >> 24 & 0x1f,
            members: (info & 0xffff) as usize,
            has_bit_fields: info >> 31 == 1,
            refers_to: number(&self.bytes, at + 8)?,
            tail: at + 12,
        })
    }

    fn text(&self, offset: u32) -> Option<&str> {
        let bytes = self.bytes.get(self.strings.checked_add(offset as usize)?..)?;
        let end = bytes.iter().position(|&byte| byte == 0)?;
        std::str::from_utf8(&bytes[..end]).ok()
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct a { int x; const struct { int y:3; int z; }; }; void f(struct a *it, int count);`
    fn small() -> Vec<u8> {
        let strings = b"\0a\0x\0y\0z\0f\0it\0count\0int\0";
        let at = |name: &str| {
            let name = [b"\0", name.as_bytes(), b"\0"].concat();
            strings.windows(name.len()).position(|it| it == name).expect("a name") as u32 + 1
        };
        let kind = |kind: u32, members: u32| kind << 24 | members;
        let types: Vec<u32> = [
            vec![at("int"), kind(1, 0), 4, 32],
            vec![at("a"), kind(STRUCT, 2), 12, at("x"), 1, 0, 0, 4, 32],
            vec![0, kind(STRUCT, 2) | 1 << 31, 8, at("y"), 1, 3 << 24, at("z"), 1, 32],
            vec![0, kind(CONST, 0), 3],
            vec![0, kind(2, 0), 2],
            vec![0, kind(PROTOTYPE, 2), 0, at("it"), 5, at("count"), 1],
            vec![at("f"), kind(FUNCTION, 0), 6],
        ]
        .concat();
        let length = types.len() as u32 * 4;
        let header = [u32::from(MAGIC) | 1 << 16, 24, 0, length, length, strings.len() as u32];
        let numbers = header.iter().chain(&types).flat_map(|number| number.to_ne_bytes());
        numbers.chain(strings.iter().copied()).collect()
    }

    #[test]
    fn members_are_found_also_in_structs_without_a_name() {
        let btf = Btf::parse(small()).expect("types");
        assert_eq!((btf.offset("a", "x"), btf.offset("a", "z")), (Some(0), Some(8)));
        assert_eq!((btf.offset("a", "other"), btf.offset("b", "x")), (None, None));
        assert_eq!(btf.parameters("f"), Some(vec!["it".to_owned(), "count".to_owned()]));
        assert_eq!(btf.parameters("a"), None, "not a function");
    }

    #[test]
    fn what_is_cut_off_or_changed_is_refused_or_unknown_and_never_a_panic() {
        let whole = small();
        for length in 0..whole.len() {
            if let Some(btf) = Btf::parse(whole[..length].to_vec()) {
                let _ = (btf.offset("a", "z"), btf.parameters("f"));
            }
        }
        for at in 0..whole.len() {
            for byte in [0, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                if let Some(btf) = Btf::parse(changed) {
                    let _ = (btf.offset("a", "z"), btf.parameters("f"));
                }
            }
        }
    }

    #[test]
    fn this_kernel_s_types_are_read() {
        let Ok(btf) = Btf::running() else {
            eprintln!("skipped: this kernel shows no types");
            return;
        };
        assert_eq!(btf.offset("kiocb", "ki_filp"), Some(0));
        let position = btf.offset("kiocb", "ki_pos").expect("a member");
        assert!((8..64).contains(&position), "{position}");
        assert!(btf.offset("vm_fault", "pgoff").is_some(), "in a struct without a name");
    }
}
