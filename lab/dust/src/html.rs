//! The report as a page that needs nothing else: the verdict, and the evidence for it.

use html_escape::encode_quoted_attribute as escaped;
use std::fmt::Write;

use crate::infer::calibrate::Modes;
use crate::infer::evidence::Visit;
use crate::plot::{Plot, time};
use crate::report::{Measured, Report};
use crate::{Counterexample, Inquiry, Known, Observed, Reading};

/// Draws for the predictions that stand beside what was seen.
const DRAWS: u32 = 12;
/// Times at which answers are drawn that a target gave in words: those of the paper's simulations.
const HIT_NS: f64 = 2e3;
const MISS_NS: f64 = 7e6;
/// Accesses of each trace that are spelt out.
const SPELT_MAX: usize = 4000;

const STYLE: &str = "body{font-family:sans-serif;margin:2em;max-width:72em;color:#222}\
table{border-collapse:collapse}td,th{padding:2px 10px;text-align:left;border-bottom:1px solid #ddd}\
td.n{text-align:right;font-variant-numeric:tabular-nums}figure{display:inline-block;margin:0 1em 1em 0}\
figcaption{font-size:12px;color:#444;max-width:320px}pre{white-space:pre-wrap;font-size:11px}\
.bar{background:#1b5fab;height:10px}.verdict{font-size:1.3em}.unknown{color:#a33}";

/// The page about an inquiry that has ended. `counterexample` is shown where there is one.
pub fn page(report: &Report, inquiry: &Inquiry, counterexample: Option<&Counterexample>) -> String {
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Dust: {}</title>\n\
         <style>{STYLE}</style></head><body>\n<h1>{}</h1>\n",
        escaped(&report.target),
        escaped(&report.target)
    );
    verdict(&mut html, report);
    parameters(&mut html, report);
    likelihoods(&mut html, inquiry);
    if let Some(counterexample) = counterexample {
        let _ = writeln!(
            html,
            "<h2>Counterexample</h2>\n<p>What the nearest family cannot explain:</p>\n<pre>{}</pre>",
            escaped(&counterexample.to_string())
        );
    }
    calibration(&mut html, report, inquiry);
    fingerprints(&mut html, inquiry);
    traces(&mut html, inquiry);
    html + "</body></html>\n"
}

fn verdict(html: &mut String, report: &Report) {
    let (class, text) = match report.verdict {
        Known::Known => {
            ("known", format!("{}, {:.1} % certain", report.full_name(), 100.0 * report.certainty))
        }
        Known::Unknown if report.family.is_empty() => ("unknown", "no cache could be seen".into()),
        Known::Unknown => ("unknown", format!("unknown; the nearest is {}", report.full_name())),
    };
    let _ = writeln!(html, "<p class=\"verdict {class}\">{}</p>\n<table>", escaped(&text));
    let [low, high] = report.interval;
    row(html, "Capacity", &format!("{} blocks, between {low} and {high}", report.capacity));
    if let Some(bytes) = report.block_bytes {
        row(html, "Bytes of a block", &bytes.to_string());
    }
    row(html, "Accesses", &report.accesses.to_string());
    row(html, "Observations that contradict it", &percent(report.mismatch));
    if let Some(fresh) = report.mismatch_fresh {
        row(html, "On a fresh trace, before it was used", &percent(fresh));
    }
    if !report.equivalent.is_empty() {
        row(html, "Could as well be", &report.equivalent.join(", "));
    }
    html.push_str("</table>\n");
}

fn parameters(html: &mut String, report: &Report) {
    if report.parameters.is_empty() {
        return;
    }
    html.push_str(
        "<h2>Parameters</h2>\n<table><tr><th>name</th><th>value</th><th>explain nearly as much</th></tr>\n",
    );
    for (name, value) in &report.parameters {
        let between = match report.parameter_intervals.get(name) {
            Some([low, high]) => format!("{low} to {high}"),
            None => String::new(),
        };
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td class=\"n\">{value}</td><td>{between}</td></tr>",
            escaped(name)
        );
    }
    html.push_str("</table>\n");
}

fn likelihoods(html: &mut String, inquiry: &Inquiry) {
    let likelihoods = inquiry.verdict().likelihoods;
    let Some(best) = likelihoods.first().map(|(_, _, log)| *log) else { return };
    html.push_str(
        "<h2>Likelihoods</h2>\n<table><tr><th>family</th><th>probability</th>\
         <th>log likelihood below the best</th><th></th></tr>\n",
    );
    for (name, probability, log) in &likelihoods {
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td class=\"n\">{probability:.4}</td><td class=\"n\">{:.1}</td><td>\
             <div class=\"bar\" style=\"width:{:.0}px\"></div></td></tr>",
            escaped(name),
            best - log,
            200.0 * probability
        );
    }
    html.push_str(
        "</table>\n<p>Observations depend on each other, so differences of log likelihoods are multiplied with 0.2 \
         before they become probabilities.</p>\n",
    );
}

fn calibration(html: &mut String, report: &Report, inquiry: &Inquiry) {
    html.push_str("<h2>Calibration</h2>\n<table>");
    row(html, "Hits can be told from misses, confidence", &percent(report.calibration));
    row(html, "Readings that mislead", &report.noise_text());
    if let (Some(hit), Some(miss)) = (report.hit_ns, report.miss_ns) {
        row(html, "Median hit", &time(hit));
        row(html, "Median miss", &time(miss));
    }
    if let Some(Measured { blocks, interval: [low, high] }) = &report.measured {
        let kept = format!("{blocks}: it holds {low} to {high}, whatever its policy");
        row(html, "Blocks kept by the cache when it was filled", &kept);
    }
    html.push_str("</table>\n");
    let returned = inquiry.observed().iter().find(|observed| observed.trace.pattern == "capacity-return");
    if let Some(observed) = returned {
        let plot = plot_of(observed, modes(inquiry), "Capacity: all blocks again, backwards");
        let _ = writeln!(html, "<figure>{}</figure>", plot.svg());
    }
}

fn fingerprints(html: &mut String, inquiry: &Inquiry) {
    html.push_str("<h2>Fingerprints</h2>\n<p>Time over the number of the block: of the probes, where the pattern has any.</p>\n");
    let shown =
        |observed: &&Observed| !["capacity-growth", "capacity-return"].contains(&&*observed.trace.pattern);
    for observed in inquiry.observed().iter().filter(shown) {
        let plot = plot_of(observed, modes(inquiry), &observed.trace.pattern);
        let caption = format!("{} accesses to {} blocks", observed.readings.len(), observed.trace.blocks());
        let _ = writeln!(html, "<figure>{}<figcaption>{caption}</figcaption></figure>", plot.svg());
    }
}

fn traces(html: &mut String, inquiry: &Inquiry) {
    html.push_str(
        "<h2>Traces</h2>\n<p>Blocks in the order in which they were read. Missed: <b>*</b>. Contradicts the best fit: \
         <b>!</b></p>\n",
    );
    let predicted = predictions(inquiry);
    let mut at = 0;
    for observed in inquiry.observed() {
        let count = observed.readings.len();
        let predicted = predicted.get(at..at + count).unwrap_or_default();
        at += count;
        let (mut text, mut misses, mut wrong) = (String::new(), 0, 0);
        for (index, reading) in observed.readings.iter().enumerate() {
            let hit = was_hit(*reading, modes(inquiry));
            let contradicts = predicted.get(index).is_some_and(|&share| (share > 0.5) != hit);
            misses += u32::from(!hit);
            wrong += u32::from(contradicts);
            if index < SPELT_MAX {
                let marks = [("*", !hit), ("!", contradicts)];
                let marks = marks.iter().filter(|(_, there)| *there).map(|(mark, _)| *mark);
                let _ = write!(text, "{}{} ", observed.trace.accesses[index], marks.collect::<String>());
            }
        }
        let start = if observed.trace.cold { "from cold" } else { "going on" };
        // What only illustrates was not put to the test.
        let wrong = if predicted.is_empty() { String::new() } else { format!(", {wrong} contradict") };
        let _ = writeln!(
            html,
            "<details><summary>{}, {start}: {count} accesses, {misses} misses{wrong}</summary>\
             <pre>{text}{}</pre></details>",
            escaped(&observed.trace.pattern),
            if count > SPELT_MAX { "..." } else { "" }
        );
    }
}

/// The best fit's share of hits for each access, in the order of the record.
fn predictions(inquiry: &Inquiry) -> Vec<f32> {
    let Some(best) = inquiry.fits().first() else { return Vec::new() };
    let draws = if best.candidate.draws() { DRAWS } else { 1 };
    let of = |visit: &Visit| best.candidate.hits(visit, DRAWS);
    let hits = inquiry.evidence().visits().iter().flat_map(of);
    hits.map(|hits| f32::from(hits) / draws as f32).collect()
}

fn modes(inquiry: &Inquiry) -> Option<Modes> {
    inquiry.calibration().modes
}

fn was_hit(reading: Reading, modes: Option<Modes>) -> bool {
    match (reading, modes) {
        (Reading::Said { hit }, _) => hit,
        (Reading::Took(ns), Some(modes)) => modes.odds(ns) > 0.0,
        (Reading::Took(_), None) => false,
    }
}

fn plot_of(observed: &Observed, modes: Option<Modes>, title: &str) -> Plot {
    let trace = &observed.trace;
    let ns = |reading: Reading| match reading {
        Reading::Took(ns) => ns as f64,
        Reading::Said { .. } if was_hit(reading, modes) => HIT_NS,
        Reading::Said { .. } => MISS_NS,
    };
    let all: Vec<usize> = (0..observed.readings.len()).collect();
    let shown = if trace.probes.is_empty() { &all } else { &trace.probes };
    let points = shown.iter().map(|&at| (trace.accesses[at], ns(observed.readings[at]))).collect();
    Plot {
        title: title.into(),
        below: "block".into(),
        position_max: shown.iter().map(|&at| trace.accesses[at]).max().unwrap_or(0).saturating_add(1),
        points,
    }
}

fn row(html: &mut String, name: &str, value: &str) {
    let _ = writeln!(html, "<tr><td>{}</td><td>{}</td></tr>", escaped(name), escaped(value));
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::SimulatedTarget;
    use crate::{Options, Trace, investigate};

    #[test]
    fn the_page_shows_the_evidence_and_loads_nothing() {
        let mut target = SimulatedTarget::new("2q".parse().unwrap(), 80, 0.02, 3).unwrap();
        let inquiry = investigate(Inquiry::new(Options::default()), &mut target).unwrap();
        let report = Report::of("policy:2q & <co>", None, &inquiry);
        let page = page(&report, &inquiry, None);
        for text in [
            "policy:2q &amp; &lt;co&gt;",
            "Likelihoods",
            "screening",
            "verification",
            "<td>in</td>",
            "Hits can be told from misses, confidence",
            " ± ",
            "whatever its policy",
            "from cold",
        ] {
            assert!(page.contains(text), "{text}");
        }
        assert!(!page.contains("src=") && !page.contains("href="), "nothing is loaded");
        assert!(page.matches("<svg").count() >= 3);
    }

    #[test]
    fn the_greatest_block_is_shown_like_any_other() {
        let mut trace = Trace::cold("far");
        trace.scan([0, u32::MAX]);
        let readings = vec![Reading::Said { hit: false }; 2];
        let plot = plot_of(&Observed { trace, readings }, None, "far");
        assert_eq!((plot.position_max, plot.points[1].0), (u32::MAX, u32::MAX));
    }
}
