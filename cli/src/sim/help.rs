//! What `--policy help` shows.

use pantler_policy::Spec;

/// All policies with their parameters.
pub fn policies() -> String {
    let mut text = String::from("Policies, with parameters as NAME:KEY=VALUE,KEY=VALUE:\n\n");
    for known in Spec::all() {
        text += &format!("  {:<16} {}\n", known.name, known.summary);
        for key in known.keys {
            let (name, meaning) = (key.key, key.meaning.trim().trim_end_matches('.'));
            text += &format!("  {:<16}   {name}: {meaning} ({}, default {})\n", "", key.range, key.default);
        }
    }
    text += "\nlru-2, lru-3 and so on are LRU-K; opt is also called min and belady.\n";
    text
}
