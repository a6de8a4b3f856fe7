//! The seam to the steer crate: its errors, and what a killed run left behind.

use pantler_control::ControlError;
use pantler_kernel::KernelError;
use pantler_steer::SteerError;

/// Errors of the body in the words of the doors, which know the exit status of each.
pub fn control_error(error: SteerError) -> ControlError {
    match error {
        SteerError::Kernel(KernelError::Missing { what, remedy }) => {
            ControlError::Missing { what: what.to_owned(), remedy }
        }
        SteerError::Options(text) => ControlError::invalid(text),
        error if error.is_missing() => ControlError::Missing {
            what: format!("a privilege ({error})"),
            remedy: "run as root, or with --best-effort to run unsteered".to_owned(),
        },
        error => ControlError::failed(error.to_string()),
    }
}

/// Removes what sessions of processes that are gone left behind. Returns a line for each thing
/// removed.
pub fn clean() -> Vec<String> {
    let removed = pantler_steer::clean_leftovers().unwrap_or_default();
    removed.iter().map(|path| path.display().to_string()).collect()
}
