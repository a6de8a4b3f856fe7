//! P7 on devices that serve 1 to 64 requests at once: what is found out, and what that is worth.
//!
//! `cargo test -p pantler-steward --test scheduling pace -- --nocapture` prints the rows.

use pantler_steward::scheduling::{PaceOptions, Scheduler, SchedulerOptions};

use crate::device::Device;

const LATENCY_NS: u64 = 100_000;

fn scheduler(pace: PaceOptions) -> Scheduler {
    Scheduler::new(SchedulerOptions { pace, run_max: 1, ..SchedulerOptions::default() })
}

#[test]
fn the_number_on_their_way_follows_the_device() {
    println!("parallel  on their way  batch  runs/s  of the device");
    for parallel in [1, 2, 4, 8, 16, 32, 64] {
        let mut device = Device::new(parallel, LATENCY_NS);
        let mut scheduler = scheduler(PaceOptions::default());
        let (mut tag, mut now) = (0, 0);
        now += device.saturate(&mut scheduler, 4000, &mut tag, now);
        let took = device.saturate(&mut scheduler, 20_000, &mut tag, now);
        let (in_flight, batch) = (scheduler.pace().in_flight(), scheduler.batch());
        let possible = parallel as u64 * 1_000_000_000 / LATENCY_NS;
        let reached = 20_000 * 1_000_000_000 / took;
        println!("{parallel:>8} {in_flight:>13} {batch:>6} {reached:>7} {possible:>14}");
        assert!(reached * 10 >= possible * 8, "{parallel}: {reached} of {possible} a second");
        // Never more than a step beyond, even while that is tried.
        assert!(in_flight as usize <= 2 * parallel, "{parallel}: {in_flight} on their way");
        assert!(batch >= 16 && batch >= in_flight);
    }
}

#[test]
fn no_constant_does_for_a_disk_and_for_a_store() {
    println!("parallel    in flight  runs/s  each waits us");
    // Runs per second, and how long each is on its way in nanoseconds (Little's law).
    let reached = |parallel: usize, pace: PaceOptions| {
        let (mut device, mut scheduler) = (Device::new(parallel, LATENCY_NS), scheduler(pace));
        let (mut tag, mut now) = (0, 0);
        now += device.saturate(&mut scheduler, 4000, &mut tag, now);
        let took = device.saturate(&mut scheduler, 20_000, &mut tag, now);
        let waits = u64::from(scheduler.pace().in_flight()) * took / 20_000;
        let name =
            if pace == PaceOptions::default() { "adapts".into() } else { pace.in_flight_max.to_string() };
        println!("{parallel:>8} {name:>12} {:>7} {:>13}", 20_000 * 1_000_000_000 / took, waits / 1000);
        (20_000 * 1_000_000_000 / took, waits)
    };
    let both = |pace| [1, 16].map(|parallel| reached(parallel, pace));
    let [one, sixteen] = [1, 16].map(|in_flight| both(PaceOptions::fixed(16, in_flight)));
    let adapts = both(PaceOptions::default());
    // One at a time leaves a store of sixteen idle; sixteen keep a reader of a disk waiting.
    assert!(one[1].0 * 12 < sixteen[1].0 && one[0].1 * 12 < sixteen[0].1, "{one:?} {sixteen:?}");
    assert!(adapts[1].0 * 10 > sixteen[1].0 * 9 && adapts[0].1 <= 2 * one[0].1, "{adapts:?}");
}

#[test]
fn a_device_that_changes_is_followed() {
    let mut scheduler = scheduler(PaceOptions::default());
    let (mut tag, mut now) = (0, 0);
    let mut found = Vec::new();
    for parallel in [16, 1, 16] {
        let mut device = Device::new(parallel, LATENCY_NS);
        now += device.saturate(&mut scheduler, 40_000, &mut tag, now);
        // The runs that were in flight when the device went are answered now.
        found.push(scheduler.pace().in_flight());
        for old in 0..=tag {
            scheduler.completed(old, now);
        }
    }
    println!("16, then 1, then 16 at once: {found:?} on their way");
    assert!(found[0] >= 8 && found[1] <= 4 && found[2] >= 8, "{found:?}");
}

#[test]
fn where_nothing_is_held_back_nothing_changes() {
    let mut device = Device::new(16, LATENCY_NS);
    let mut scheduler = scheduler(PaceOptions { in_flight_min: 128, in_flight_max: 1024, batch: 16 });
    // 64 wait at most, so the limit never binds.
    device.saturate(&mut scheduler, 20_000, &mut 0, 0);
    assert_eq!(scheduler.pace().in_flight(), 128);
    let fixed = Scheduler::new(SchedulerOptions { pace: PaceOptions::fixed(8, 3), ..Default::default() });
    assert_eq!((fixed.pace().in_flight(), fixed.batch()), (3, 8));
}
