//! `pantler stat`: counters by owner, priority and file.

mod table;

use anyhow::Result;
use clap::Args;
use pantler_control::BodyStat;
use pantler_control::client::unexpected;
use pantler_control::wire::{Answer, Request};
use rustix::termios::tcgetwinsize;
use std::collections::HashMap;
use std::io::{IsTerminal, stdout};
use std::time::Duration;

use crate::bodies::{self, Found};
use crate::output;
use crate::values;
use table::Table;

#[derive(Debug, Args)]
pub struct Stat {
    /// Mount point or run; without it all of them
    #[arg(value_name = "MOUNT|RUN")]
    on: Option<String>,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
    /// Repeat every SECONDS, such as 0.5: the first table counts from the start, each later one
    /// from the table before it. JSON always counts from the start
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
          value_parser = values::interval)]
    watch: Option<Duration>,
}

/// Shows counters once, or again and again.
pub fn stat(arguments: &Stat) -> Result<()> {
    let mut bodies = match &arguments.on {
        Some(on) => vec![bodies::named(on)?],
        None => bodies::some()?,
    };
    if bodies.is_empty() {
        tell!("{}", bodies::none());
    }
    let in_place = arguments.watch.is_some() && !arguments.json && stdout().is_terminal();
    let mut before: HashMap<String, BodyStat> = HashMap::new();
    loop {
        let window = if stdout().is_terminal() { tcgetwinsize(stdout()).ok() } else { None };
        let (rows, columns) = window.map_or((0, 0), |size| (size.ws_row, size.ws_col));
        let table = Table::new(usize::from(columns));
        let (mut text, mut now) = (String::new(), HashMap::new());
        for body in &mut bodies {
            let stat = asked(body)?;
            if arguments.json {
                text.push_str(&output::to_json("stat", &stat)?);
            } else {
                text.push_str(&table.of(&stat, before.get(&stat.body.name)));
                now.insert(stat.body.name.clone(), stat);
            }
        }
        before = now;
        if in_place {
            text = screen(&text, rows);
        }
        if !output::line(&text)? {
            return Ok(());
        }
        let Some(interval) = arguments.watch else { return Ok(()) };
        std::thread::sleep(interval);
        // Bodies come and go; what was named must stay.
        match &arguments.on {
            Some(on) => bodies = vec![bodies::named(on)?],
            None => bodies = bodies::some()?,
        }
    }
}

fn asked(body: &mut Found) -> Result<BodyStat> {
    let request = Request::Stat { on: body.info.name.clone() };
    match body.ask(&request, None)? {
        Answer::Stat(stat) => Ok(*stat),
        other => Err(unexpected(&other).into()),
    }
}

/// A text over the one before: from the top left corner, the rest of each line and of the screen
/// cleared. What does not fit is left out, so that nothing scrolls; 0 rows are of a terminal that
/// does not tell.
fn screen(text: &str, rows: u16) -> String {
    let rows = if rows == 0 { usize::MAX } else { usize::from(rows) - 1 };
    let mut screen = "\x1b[H".to_owned();
    for line in text.lines().take(rows) {
        screen.push_str(line);
        screen.push_str("\x1b[K\n");
    }
    screen.push_str("\x1b[J");
    screen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_drawn_over_the_one_before_and_does_not_scroll() {
        assert_eq!(screen("a\nb\n", 24), "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J");
        assert_eq!(screen("a\nb\nc\n", 3), "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J");
        assert_eq!(screen("a\n", 0), "\x1b[Ha\x1b[K\n\x1b[J");
    }
}
