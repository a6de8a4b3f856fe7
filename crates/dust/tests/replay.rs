//! A recording of many short traces is read once, not once for each of them.

use pantler_dust::infer::family::Family;
use pantler_dust::targets::SimulatedTarget;
use pantler_dust::{Inquiry, Observed, Options, Reading, Target, Trace};
use rustix::time::{ClockId, clock_gettime};

const FRAMES: u32 = 40;
const TRACES: u32 = 20_000;

/// Four references each, all of one visit.
fn recording(timed: bool) -> Vec<Observed> {
    let mut target =
        SimulatedTarget::new("lru".parse().expect("a policy"), FRAMES, 0.0, 1).expect("it is online");
    let observe = |number: u32| {
        let mut trace = if number == 0 { Trace::cold("short") } else { Trace::warm("short") };
        trace.scan((0..4).map(|at| (number * 7 + at * at * number / 3) % (FRAMES * 2)));
        let mut readings = target.run(&trace).expect("it answers");
        if timed {
            let took = |reading| if reading == (Reading::Said { hit: true }) { 1000 } else { 90_000 };
            readings = readings.into_iter().map(|reading| Reading::Took(took(reading))).collect();
        }
        Observed { trace, readings }
    };
    (0..TRACES).map(observe).collect()
}

#[test]
fn a_recording_takes_as_long_as_it_is() {
    for timed in [false, true] {
        let families = Family::all().iter().filter(|family| family.name == "lru").collect();
        let options = Options { capacity: Some((30, 50)), families, ..Options::default() };
        let recording = recording(timed);
        let start = clock_gettime(ClockId::ThreadCPUTime);
        let inquiry = Inquiry::replay(options, recording);
        let took = clock_gettime(ClockId::ThreadCPUTime).tv_sec - start.tv_sec;
        let best = &inquiry.fits()[0].candidate;
        assert_eq!((inquiry.evidence().len(), best.frames), (4 * TRACES as usize, FRAMES), "{timed}");
        // Where each trace had all before it looked at again, this grew with the square of their number.
        assert!(took < 5, "{took} s of a processor");
    }
}
