//! The table on a terminal, until q.

use anyhow::{Context, Result};
use pantler_steer::UsageWatch;
use pantler_steer::usage::UsageReport;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row as Cells, Table};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::rows::{Rows, Sort};
use super::text::{headline, notes};
use super::{By, Top, refused};

const KEYS: &str = "q quit  p processes  g groups  f files  s sort  space hold";

/// The terminal is given back as it was, at every end but SIGKILL and SIGTSTP: ratatui does it when
/// something panics.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// What is shown.
struct Picture {
    by: By,
    sort: Sort,
    /// Rows, beside those that do not fit.
    most: Option<usize>,
    is_held: bool,
    report: UsageReport,
}

/// Shows tables until q, or a signal.
pub fn show(watch: &mut UsageWatch, arguments: &Top, stopped: &AtomicBool) -> Result<()> {
    let _restored = Restored;
    let mut terminal = ratatui::try_init().context("cannot use this terminal: --once needs none")?;
    let report = UsageReport::default();
    let (by, sort, most) = (arguments.by, arguments.sort, arguments.rows.map(NonZeroUsize::get));
    let mut picture = Picture { by, sort, most, is_held: false, report };
    let mut drawn = Instant::now();
    let mut is_old = true;
    while !stopped.load(Ordering::Relaxed) {
        watch.look().map_err(refused)?;
        while event::poll(Duration::ZERO).context("cannot read keys")? {
            match event::read().context("cannot read keys")? {
                Event::Key(key) if key.kind == KeyEventKind::Press && !picture.obey(key) => return Ok(()),
                _ => is_old = true,
            }
        }
        if drawn.elapsed() >= arguments.interval {
            drawn = Instant::now();
            let report = watch.report().map_err(refused)?;
            if !picture.is_held {
                picture.report = report;
                is_old = true;
            }
        }
        if std::mem::take(&mut is_old) {
            terminal.draw(|frame| picture.draw(frame)).context("cannot draw")?;
        }
    }
    Ok(())
}

impl Picture {
    /// Obeys a key; false to end.
    fn obey(&mut self, key: KeyEvent) -> bool {
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('p') => self.by = By::Process,
            KeyCode::Char('g') => self.by = By::Group,
            KeyCode::Char('f') => self.by = By::File,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char(' ') => self.is_held = !self.is_held,
            _ => {}
        }
        true
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let mut rows = Rows::of(&self.report, self.by, self.sort);
        let mut head = headline(&rows, &self.report);
        head.push_str(if self.is_held { ", held" } else { "" });
        let mut lines = vec![Line::from(head)];
        lines.extend(notes(&self.report).into_iter().map(Line::from));
        if rows.total.faults > 0 {
            lines.push(Line::from("uses of mapped pages after their fault are unknown"));
        }
        let heights = [Constraint::Length(lines.len() as u16), Constraint::Min(0), Constraint::Length(1)];
        let [above, middle, below] = Layout::vertical(heights).areas(frame.area());
        frame.render_widget(Paragraph::new(lines), above);
        // The head, the total and the others have lines of their own.
        let fitting = usize::from(middle.height).saturating_sub(3);
        rows.keep(self.most.unwrap_or(fitting).min(fitting));
        frame.render_widget(table(&rows, middle.width.into()), middle);
        frame.render_widget(Paragraph::new(KEYS).style(Modifier::REVERSED), below);
    }
}

fn table(rows: &Rows, width: usize) -> Table<'static> {
    let figure_columns: usize = Sort::ALL.map(Sort::columns).iter().sum();
    let name_columns = width.saturating_sub(figure_columns + 1);
    let line = |counts, name: &str| {
        let figures = Sort::ALL.map(|sort| right(sort.figure(counts)));
        Cells::new(figures.into_iter().chain([Cell::from(format!(" {}", end_of(name, name_columns)))]))
    };
    let mut lines = vec![line(&rows.total, "total")];
    lines.extend(rows.rows.iter().map(|row| line(&row.counts, &row.name())));
    if rows.other != Default::default() {
        lines.push(line(&rows.other, "(others)"));
    }
    let by: &str = rows.by.into();
    let heads = Sort::ALL.map(|sort| {
        let style = if sort == rows.sort { Modifier::BOLD | Modifier::UNDERLINED } else { Modifier::empty() };
        right(sort.head().to_owned()).style(style)
    });
    let widths = Sort::ALL.map(|sort| Constraint::Length(sort.columns() as u16));
    let widths = widths.into_iter().chain([Constraint::Min(0)]);
    let head = heads.into_iter().chain([Cell::from(format!(" {by}"))]);
    Table::new(lines, widths)
        .column_spacing(0)
        .header(Cells::new(head).style(Style::new().add_modifier(Modifier::REVERSED)))
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Text::from(text).alignment(Alignment::Right))
}

/// The end of a path says more than its start.
fn end_of(name: &str, columns: usize) -> String {
    let count = name.chars().count();
    if count <= columns {
        return name.to_owned();
    }
    let end: String = name.chars().skip(count + 1 - columns.max(1)).collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests {
    use super::super::rows::tests::report;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn drawn(picture: &Picture) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| picture.draw(frame)).unwrap();
        let cells = terminal.backend().buffer().content();
        let line = |line: &[ratatui::buffer::Cell]| line.iter().map(|cell| cell.symbol()).collect::<String>();
        cells.chunks(80).map(|cells| line(cells).trim_end().to_owned()).collect()
    }

    #[test]
    fn keys_choose_what_fits_on_80_columns_and_24_lines() {
        let mut picture =
            Picture { by: By::Process, sort: Sort::References, most: None, is_held: false, report: report() };
        let lines = drawn(&picture);
        assert_eq!(lines[0], "page cache by process, 2.0 s, 900 events");
        assert_eq!(lines[2], "references     hits  misses   hit % read MB  faults process");
        assert_eq!(lines[3], "       400      300     100    75.0     0.5      12 total");
        assert_eq!(lines[4], "       300      300       0   100.0     0.0       0 8 sh\\u{1b}[2J");
        assert_eq!(lines[23], KEYS);
        for key in ['f', 's', ' ', 'x'] {
            assert!(picture.obey(KeyCode::Char(key).into()));
        }
        let lines = drawn(&picture);
        assert_eq!((lines[0].ends_with("held"), picture.sort), (true, Sort::Hits));
        assert!(lines[5].ends_with("12 device 254:3, inode 6"), "{lines:?}");
        picture.most = Some(1);
        let lines = drawn(&picture);
        let others = lines.iter().filter(|line| line.ends_with("(others)"));
        assert_eq!(others.count(), 1, "{lines:?}");
        assert!(!picture.obey(KeyCode::Char('q').into()));
        assert!(!picture.obey(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    }
}
