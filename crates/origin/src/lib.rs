//! Where the bytes come from: directories.
