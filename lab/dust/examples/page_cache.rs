//! Asks the page cache of this kernel and prints every number: `page_cache [FOLDER]`, as root.

use pantler_dust::targets::{PageCacheTarget, Stop, Target, expectations};
use pantler_dust::{Inquiry, Report, investigate, record};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "/var/tmp".into());
    let start = std::time::Instant::now();
    let mut target = PageCacheTarget::new(folder.as_ref(), Stop::default())?;
    let inquiry = investigate(Inquiry::new(expectations("pagecache")), &mut target)?;
    let verdict = inquiry.verdict();
    println!(
        "{}{verdict:#?}\n{:?}",
        Report::of("pagecache", target.block_bytes(), &inquiry).text(),
        start.elapsed()
    );
    let mut file = std::fs::File::create(std::env::temp_dir().join("page_cache.record"))?;
    Ok(record::write(&mut file, "pagecache", target.block_bytes(), inquiry.observed())?)
}
