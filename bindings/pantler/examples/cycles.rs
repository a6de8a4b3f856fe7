//! Reads a file five times, and says before that it is read in cycles.
use std::io::{Seek, copy, sink};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut file = std::fs::File::open(std::env::args().nth(1).ok_or("expected a file")?)?;
    pantler::Hints::default().set_policy(0, pantler::PolicyName::Mru)?;
    for _ in 0..5 {
        file.rewind()?;
        copy(&mut file, &mut sink())?;
    }
    Ok(())
}
