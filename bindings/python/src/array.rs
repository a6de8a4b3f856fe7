//! References from NumPy arrays.

use numpy::{PyArrayDescrMethods, PyReadonlyArray1, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// Most references: positions in a trace are `u32`, and the highest means *never*.
const REFERENCES_MAX: usize = u32::MAX as usize - 1;

/// The ids of an array. They are copied: while Python's lock is free, other threads may write to
/// the array.
pub enum Ids {
    /// Of a `uint32` array.
    Narrow(Vec<u32>),
    /// Of a `uint64` array.
    Wide(Vec<u64>),
}

impl Ids {
    /// Reads an array of one dimension, contiguous or not.
    ///
    /// # Errors
    ///
    /// `TypeError` for anything but an array of `uint32` or `uint64`; `ValueError` for several
    /// dimensions, no reference, or too many.
    pub fn read(ids: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Ok(array) = ids.cast::<PyUntypedArray>() else {
            let given = ids.get_type().name()?;
            let text = format!(
                "ids: {given}: expected a NumPy array of uint32 or uint64, such as numpy.array(ids, dtype=numpy.uint64)"
            );
            return Err(PyTypeError::new_err(text));
        };
        if array.ndim() != 1 {
            let text =
                format!("ids: an array of {} dimensions: expected 1, such as ids.ravel()", array.ndim());
            return Err(PyValueError::new_err(text));
        }
        let count = array.len();
        if count == 0 || count > REFERENCES_MAX {
            let text = format!("ids: {count} references: expected 1 to {REFERENCES_MAX}");
            return Err(PyValueError::new_err(text));
        }
        if let Ok(narrow) = ids.extract::<PyReadonlyArray1<'_, u32>>() {
            return Ok(Self::Narrow(narrow.as_array().to_vec()));
        }
        if let Ok(wide) = ids.extract::<PyReadonlyArray1<'_, u64>>() {
            return Ok(Self::Wide(wide.as_array().to_vec()));
        }
        let dtype = array.dtype().typeobj().name()?.to_string();
        let text = format!(
            "ids: an array of {dtype}: expected uint32 or uint64 in native order, such as ids.astype(numpy.uint64)"
        );
        Err(PyTypeError::new_err(text))
    }
}
