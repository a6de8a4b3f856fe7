//! Recordings that are analysed again: as long as they are, and with the same result.

use crate::caches::{STRANGERS, Stranger};
use pantler_dust::infer::family::Family;
use pantler_dust::infer::random::Random;
use pantler_dust::targets::SimulatedTarget;
use pantler_dust::{Inquiry, Known, Observed, Options, Reading, Report, Script, Target, investigate, record};
use rustix::time::{ClockId, clock_gettime};

const FRAMES: u32 = 40;
const TRACES: u32 = 20_000;

/// Four references each, all of one visit.
fn recording(timed: bool) -> Vec<Observed> {
    let mut target =
        SimulatedTarget::new("lru".parse().expect("a policy"), FRAMES, 0.0, 1).expect("it is online");
    let observe = |number: u32| {
        let mut script = if number == 0 { Script::cold("short") } else { Script::warm("short") };
        script.scan((0..4).map(|at| (number * 7 + at * at * number / 3) % (FRAMES * 2)));
        let mut readings = target.run(&script).expect("it answers");
        if timed {
            let took = |reading| if reading == (Reading::Said { hit: true }) { 1000 } else { 90_000 };
            readings = readings.into_iter().map(|reading| Reading::Took(took(reading))).collect();
        }
        Observed { script, readings }
    };
    (0..TRACES).map(observe).collect()
}

#[test]
fn a_recording_takes_as_long_as_it_is() {
    for timed in [false, true] {
        let families = Family::all().iter().filter(|family| family.name == "lru").collect();
        let options = Options { families, blocks_max: 64, ..Options::default() };
        let recording = recording(timed);
        let start = clock_gettime(ClockId::ThreadCPUTime);
        let inquiry = Inquiry::replay(options, recording);
        let took = clock_gettime(ClockId::ThreadCPUTime).tv_sec - start.tv_sec;
        let best = &inquiry.fits()[0].hypothesis;
        assert_eq!((inquiry.evidence().len(), best.frames), (4 * TRACES as usize, FRAMES), "{timed}");
        // Where each script had all before it looked at again, this grew with the square of their
        // number.
        assert!(took < 5, "{took} s of a processor");
    }
}

/// Everything that is reported of an inquiry.
fn told(inquiry: &Inquiry) -> String {
    let report = Report::of("it", None, inquiry);
    format!("{report:?} {:?}", inquiry.verdict())
}

#[test]
fn who_is_unknown_is_so_again_byte_for_byte() {
    for (at, (name, choice)) in STRANGERS.into_iter().take(2).enumerate() {
        for flushes in [true, false] {
            let mut target = Stranger::new(choice, FRAMES, 0.01, Random::new(at as u64));
            let options = Options { flushes, ..Options::default() };
            let inquiry = investigate(Inquiry::new(options.clone()), &mut target).expect("it answers");
            assert_eq!(inquiry.verdict().verdict, Known::Unknown, "{name}");
            let mut bytes = Vec::new();
            record::write(&mut bytes, "it", None, inquiry.observed()).expect("memory");
            let recording = record::read(&mut bytes.as_slice()).expect("it was recorded");
            let again = Inquiry::replay(options, recording.observed);
            assert_eq!(told(&again), told(&inquiry), "{name}, {flushes}");
        }
    }
}

/// Without a fresh script nothing is certain.
#[test]
fn what_was_not_verified_is_unknown_again() {
    let mut target =
        SimulatedTarget::new("fifo".parse().expect("a policy"), 100, 0.02, 7).expect("it is online");
    let asked = investigate(Inquiry::new(Options::default()), &mut target).expect("it answers");
    for verified in [true, false] {
        let kept = |observed: &&Observed| verified || observed.script.pattern != "verification";
        let observed: Vec<Observed> = asked.observed().iter().filter(kept).cloned().collect();
        let inquiry = Inquiry::replay(Options::default(), observed);
        assert_eq!(inquiry.verdict().verdict == Known::Known, verified);
    }
}
