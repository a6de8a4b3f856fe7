//! Names the library, so that programs find it where it is installed.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpantler.so.0");
}
