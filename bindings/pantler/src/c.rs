//! The calls for C: `include/pantler.h`. An error is `errno`; a panic of ours ends the call with
//! `EIO`, and not the program.

use std::ffi::{CStr, c_char, c_int};
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use errno::{Errno, set_errno};
use pantler_control::{ControlError, ListAnswer, PolicyName, RANGES_MAX};

use crate::explanation::Explanation;
use crate::hints::Hints;

static HINTS: Hints = Hints::new();

/// `struct pantler_range`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Range {
    first: i64,
    end: i64,
}

/// `struct pantler_list`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct List {
    ranges: u64,
    blocks_done: u64,
    blocks_left: u64,
    in_flight: u64,
    trimmed: u64,
}

/// `PANTLER_POLICY_BYTES`.
const POLICY_BYTES: usize = 32;
/// `PANTLER_WHY_BYTES`.
const WHY_BYTES: usize = 256;

/// `struct pantler_explanation`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Told {
    bytes: u64,
    cached_bytes: u64,
    priority: c_int,
    policy: [u8; POLICY_BYTES],
    why: [u8; WHY_BYTES],
}

impl Told {
    fn of(explanation: Option<Explanation>) -> Told {
        let Some(told) = explanation else {
            let policy = text(&PolicyName::Lru.to_string());
            return Told { bytes: 0, cached_bytes: 0, priority: 0, policy, why: text("") };
        };
        let Explanation { bytes, cached_bytes, priority, policy, decisions } = told;
        let why = text(decisions.last().map_or("", String::as_str));
        Told { bytes, cached_bytes, priority, policy: text(&policy.to_string()), why }
    }
}

/// A string of C, cut where the room ends.
fn text<const N: usize>(words: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let end = words.floor_char_boundary(N - 1);
    bytes[..end].copy_from_slice(&words.as_bytes()[..end]);
    bytes
}

/// Runs and mounts that take hints of this process.
#[unsafe(no_mangle)]
pub extern "C" fn pantler_connections() -> c_int {
    catch_unwind(|| HINTS.connections() as c_int).unwrap_or(0)
}

/// See [`Hints::refused`].
#[unsafe(no_mangle)]
pub extern "C" fn pantler_refused() -> i64 {
    catch_unwind(|| HINTS.refused() as i64).unwrap_or(0)
}

/// See [`Hints::set_priority`].
#[unsafe(no_mangle)]
pub extern "C" fn pantler_set_priority(fd: c_int, priority: c_int) -> c_int {
    with_file(fd, |file| HINTS.set_priority(file, priority))
}

/// See [`Hints::priority`].
///
/// # Safety
/// `priority` is where an `int` may be written, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantler_get_priority(fd: c_int, priority: *mut c_int) -> c_int {
    with_file(fd, |file| {
        let priority = NonNull::new(priority).ok_or_else(|| null("priority"))?;
        // SAFETY: the caller's promise; what is there need not be a number yet.
        HINTS.priority(file).map(|found| unsafe { priority.write(found) })
    })
}

/// See [`Hints::set_policy`].
///
/// # Safety
/// `policy` is a string that ends with 0, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantler_set_policy(priority: c_int, policy: *const c_char) -> c_int {
    // SAFETY: the caller's promise; null is looked for first.
    let policy = (!policy.is_null()).then(|| unsafe { CStr::from_ptr(policy) });
    status(|| {
        let name = policy.and_then(|policy| policy.to_str().ok()).ok_or_else(|| null("policy"))?;
        let unknown = |_| ControlError::invalid(format!("policy {name:?}: expected one that there is"));
        HINTS.set_policy(priority, name.parse::<PolicyName>().map_err(unknown)?)
    })
}

/// See [`Hints::policy`].
///
/// # Safety
/// `policy` is where `bytes` bytes may be written, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantler_get_policy(priority: c_int, policy: *mut c_char, bytes: usize) -> c_int {
    status(|| {
        let name = HINTS.policy(priority)?.to_string();
        if policy.is_null() || bytes <= name.len() {
            return Err(ControlError::invalid(format!("{bytes} bytes: too few for {name:?}")));
        }
        // SAFETY: the name and the 0 behind it fit into what the caller promised.
        unsafe {
            policy.cast::<u8>().copy_from_nonoverlapping(name.as_ptr(), name.len());
            policy.add(name.len()).write(0);
        }
        Ok(())
    })
}

/// See [`Hints::set_temporary_priority`].
#[unsafe(no_mangle)]
pub extern "C" fn pantler_set_temporary_priority(fd: c_int, first: i64, end: i64, priority: c_int) -> c_int {
    with_file(fd, |file| HINTS.set_temporary_priority(file, byte(first)?..byte(end)?, priority))
}

/// See [`Hints::done_with`].
#[unsafe(no_mangle)]
pub extern "C" fn pantler_done_with(fd: c_int, first: i64, end: i64) -> c_int {
    with_file(fd, |file| HINTS.done_with(file, byte(first)?..byte(end)?))
}

/// See [`Hints::explain`].
///
/// # Safety
/// `explanation` is where one may be written, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantler_explain(fd: c_int, explanation: *mut Told) -> c_int {
    with_file(fd, |file| {
        let explanation = NonNull::new(explanation).ok_or_else(|| null("explanation"))?;
        let told = Told::of(HINTS.explain(file)?);
        // SAFETY: the caller's promise; what is there need not be an explanation yet.
        unsafe { explanation.write(told) };
        Ok(())
    })
}

/// See [`Hints::list`].
///
/// # Safety
/// `ranges` are `count` ranges, or null; `list` is where one may be written, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantler_set_list(
    fd: c_int,
    ranges: *const Range,
    count: usize,
    list: *mut List,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { give_list(fd, ranges, count, list, false) }
}

/// See [`Hints::list`].
///
/// # Safety
/// As [`pantler_set_list`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantler_extend_list(
    fd: c_int,
    ranges: *const Range,
    count: usize,
    list: *mut List,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { give_list(fd, ranges, count, list, true) }
}

/// See [`Hints::get_list`].
///
/// # Safety
/// `list` is where a list may be written, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantler_get_list(list: *mut List) -> c_int {
    // SAFETY: the caller's promise.
    status(|| HINTS.get_list().map(|answer| unsafe { tell_of(answer, list) }))
}

/// See [`Hints::end_list`].
#[unsafe(no_mangle)]
pub extern "C" fn pantler_end_list() -> c_int {
    status(|| HINTS.end_list())
}

/// See [`Hints::clear`].
#[unsafe(no_mangle)]
pub extern "C" fn pantler_clear() -> c_int {
    status(|| HINTS.clear())
}

/// # Safety
/// As [`pantler_set_list`].
unsafe fn give_list(fd: c_int, ranges: *const Range, count: usize, list: *mut List, follows: bool) -> c_int {
    let is_sound = count == 0 || !ranges.is_null() && count <= RANGES_MAX;
    let length = if is_sound { count } else { 0 };
    let ranges = if length > 0 { ranges } else { NonNull::<Range>::dangling().as_ptr() };
    // SAFETY: the caller's promise; a slice is never null, and of a bounded length.
    let ranges = unsafe { std::slice::from_raw_parts(ranges, length) };
    with_file(fd, |file| {
        if !is_sound {
            return Err(ControlError::invalid(format!("{count} ranges: expected at most {RANGES_MAX}")));
        }
        let ranges: Vec<(i64, i64)> = ranges.iter().map(|range| (range.first, range.end)).collect();
        let answer = HINTS.list(file, &ranges, follows)?;
        // SAFETY: the caller's promise.
        unsafe { tell_of(answer, list) };
        Ok(())
    })
}

/// # Safety
/// `list` is where one may be written, or null.
unsafe fn tell_of(answer: ListAnswer, list: *mut List) {
    let ListAnswer { ranges, blocks_done, blocks_left, in_flight, trimmed } = answer;
    if let Some(list) = NonNull::new(list) {
        // SAFETY: the caller's promise; what is there need not be a list yet.
        unsafe { list.write(List { ranges, blocks_done, blocks_left, in_flight, trimmed }) };
    }
}

fn byte(at: i64) -> Result<u64, ControlError> {
    u64::try_from(at).map_err(|_| ControlError::invalid(format!("byte {at}")))
}

fn null(what: &str) -> ControlError {
    ControlError::invalid(format!("{what}: expected a place in memory"))
}

/// A call about an open file.
fn with_file(fd: c_int, call: impl FnOnce(BorrowedFd<'_>) -> Result<(), ControlError>) -> c_int {
    if fd < 0 {
        set_errno(Errno(rustix::io::Errno::BADF.raw_os_error()));
        return -1;
    }
    // SAFETY: the program keeps it open while it calls; one that is not open fails with EBADF.
    let file = unsafe { BorrowedFd::borrow_raw(fd) };
    if let Err(error) = rustix::io::fcntl_getfd(file) {
        set_errno(Errno(error.raw_os_error()));
        return -1;
    }
    status(|| call(file))
}

fn status(call: impl FnOnce() -> Result<(), ControlError>) -> c_int {
    use rustix::io::Errno as Number;
    let failed = || Err(ControlError::failed("a panic"));
    let Err(error) = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| failed()) else { return 0 };
    let number = match error {
        // Not found is a file that is no regular one.
        ControlError::Invalid { .. } | ControlError::NotFound { .. } => Number::INVAL,
        ControlError::Denied { .. } => Number::PERM,
        ControlError::Bound { .. } => Number::NOSPC,
        ControlError::Unsupported { .. } | ControlError::Missing { .. } => Number::OPNOTSUPP,
        _ => Number::IO,
    };
    set_errno(Errno(number.raw_os_error()));
    -1
}
