//! The calls of the papers, for Python: `pantler.hints` opens files and names arguments.

use std::os::fd::BorrowedFd;

use pantler::{ControlError, ListAnswer};
use pyo3::exceptions::{PyOSError, PyPermissionError, PyValueError};
use pyo3::prelude::*;

/// The hints of this process.
#[pyclass(frozen)]
pub struct Hints(pantler::Hints);

/// Ranges not behind, blocks done, blocks left, blocks in flight, ranges left out.
type List = (u64, u64, u64, u64, u64);

/// Bytes, cached bytes, priority, policy, decisions.
type Told = (u64, u64, i32, String, Vec<String>);

#[pymethods]
impl Hints {
    #[new]
    fn new() -> Self {
        Self(pantler::Hints::default())
    }

    fn connections(&self, py: Python<'_>) -> usize {
        py.detach(|| self.0.connections())
    }

    fn set_priority(&self, py: Python<'_>, fd: i32, priority: i64) -> PyResult<()> {
        let priority = small(priority)?;
        with_file(py, fd, |file| self.0.set_priority(file, priority))
    }

    fn priority(&self, py: Python<'_>, fd: i32) -> PyResult<i32> {
        with_file(py, fd, |file| self.0.priority(file))
    }

    fn set_policy(&self, py: Python<'_>, priority: i64, policy: &str) -> PyResult<()> {
        let priority = small(priority)?;
        let unknown = |_| PyValueError::new_err(format!("policy {policy:?}: expected one that there is"));
        let policy = policy.parse().map_err(unknown)?;
        py.detach(|| self.0.set_policy(priority, policy)).map_err(of_control)
    }

    fn policy(&self, py: Python<'_>, priority: i64) -> PyResult<String> {
        let priority = small(priority)?;
        py.detach(|| self.0.policy(priority)).map(|policy| policy.to_string()).map_err(of_control)
    }

    fn set_temporary_priority(
        &self,
        py: Python<'_>,
        fd: i32,
        first: i64,
        end: i64,
        priority: i64,
    ) -> PyResult<()> {
        let (first, end, priority) = (small(first)?, small(end)?, small(priority)?);
        with_file(py, fd, |file| self.0.set_temporary_priority(file, first..end, priority))
    }

    fn done_with(&self, py: Python<'_>, fd: i32, first: i64, end: i64) -> PyResult<()> {
        let (first, end) = (small(first)?, small(end)?);
        with_file(py, fd, |file| self.0.done_with(file, first..end))
    }

    fn refused(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.0.refused())
    }

    fn explain(&self, py: Python<'_>, fd: i32) -> PyResult<Option<Told>> {
        let told = with_file(py, fd, |file| self.0.explain(file))?;
        Ok(told.map(|it| (it.bytes, it.cached_bytes, it.priority, it.policy.to_string(), it.decisions)))
    }

    fn list(&self, py: Python<'_>, fd: i32, ranges: Vec<(i64, i64)>, follows: bool) -> PyResult<List> {
        with_file(py, fd, |file| self.0.list(file, &ranges, follows)).map(of_list)
    }

    fn get_list(&self, py: Python<'_>) -> PyResult<List> {
        py.detach(|| self.0.get_list()).map(of_list).map_err(of_control)
    }

    fn end_list(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.end_list()).map_err(of_control)
    }

    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.clear()).map_err(of_control)
    }
}

/// A number that fits, or a `ValueError`.
fn small<T: TryFrom<i64>>(number: i64) -> PyResult<T> {
    let unfit = |_| PyValueError::new_err(format!("{number}: expected a number in the bounds of the call"));
    T::try_from(number).map_err(unfit)
}

fn with_file<T: Send>(
    py: Python<'_>,
    fd: i32,
    call: impl FnOnce(BorrowedFd<'_>) -> Result<T, ControlError> + Send,
) -> PyResult<T> {
    if fd < 0 {
        return Err(PyValueError::new_err(format!("descriptor {fd}: expected an open file")));
    }
    // SAFETY: Python keeps the file open while it calls; what is not open is refused.
    let file = unsafe { BorrowedFd::borrow_raw(fd) };
    py.detach(|| call(file)).map_err(of_control)
}

fn of_list(ListAnswer { ranges, blocks_done, blocks_left, in_flight, trimmed }: ListAnswer) -> List {
    (ranges, blocks_done, blocks_left, in_flight, trimmed)
}

fn of_control(error: ControlError) -> PyErr {
    match error {
        ControlError::Invalid { reason } => PyValueError::new_err(reason),
        ControlError::Denied { .. } => PyPermissionError::new_err(error.to_string()),
        error => PyOSError::new_err(error.to_string()),
    }
}
