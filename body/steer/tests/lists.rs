//! Access lists on the real page cache: blocks that a list names are in memory before the program
//! reads them, and lists that are wrong cost next to nothing. Needs root; says why when it cannot
//! run.

mod common;

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Scratch, cached_blocks, in_turn, outside, sh, start};
use pantler_control::{ControlError, Hint, HintAnswer, ListAnswer, OwnerSelector, Speaker};
use pantler_kernel::pages::block_bytes;
use pantler_steer::Steer;

const FILE_BYTES: u64 = 128 << 10;
fn file_blocks() -> u64 {
    FILE_BYTES / block_bytes()
}

/// Files with data on the device and nothing in memory, in an order that is not that of their
/// names.
fn files(scratch: &Scratch, count: usize) -> Vec<String> {
    (0..count).map(|number| scratch.file(&format!("f{:02}", number * 7 % count), FILE_BYTES)).collect()
}

fn root() -> Speaker {
    Speaker { uid: 0, gid: 0, groups: Vec::new(), pid: std::process::id() }
}

fn say(steer: &Steer, hint: &Hint, file: Option<&File>) -> Result<ListAnswer, ControlError> {
    match steer.body().hint(&root(), &OwnerSelector::UserDefault, hint, file.map(AsFd::as_fd))? {
        HintAnswer::List(answer) => Ok(answer),
        _ => Ok(ListAnswer::default()),
    }
}

fn list(steer: &Steer, paths: &[String]) {
    for (number, path) in paths.iter().enumerate() {
        let hint = Hint::ListFile { path: path.into(), ranges: Vec::new(), append: number > 0 };
        say(steer, &hint, Some(&File::open(path).expect("opened"))).expect("listed");
    }
}

fn listed(steer: &Steer) -> u64 {
    steer.counters().named().find(|(name, _)| *name == "listed").expect("a counter").1
}

/// A program of the run that reads a file for each line it is given.
struct Program(Child);

impl Program {
    fn start(steer: &Steer) -> Program {
        let mut command = Command::new("sh");
        command.args(["-c", "while read path; do dd if=$path of=/dev/null bs=8k status=none; done"]);
        steer.enter(command.stdin(Stdio::piped())).expect("entered");
        Program(command.spawn().expect("started"))
    }

    fn read(&mut self, path: &str) {
        writeln!(self.0.stdin.as_mut().expect("a pipe"), "{path}").expect("told");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Waits until something is so; says what was not.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Gives something a moment to become so.
fn moment(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(1);
    while !is_so() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_a_list_names_is_in_memory_before_it_is_read() {
    in_turn(|| {
        let scratch = Scratch::new("listed");
        let files = files(&scratch, 24);
        let steer = start(16 << 20);
        list(&steer, &files);
        let mut program = Program::start(&steer);
        for path in &files[..8] {
            program.read(path);
        }
        // The program waits for more, and has never opened what comes next.
        let ahead = || files[8..].iter().map(|path| cached_blocks(path)).sum::<u64>();
        until("nothing of the list is there", || ahead() >= 2 * file_blocks());
        steer.wait_until_calm();
        let there = files[8..].iter().take_while(|path| cached_blocks(path) == file_blocks()).count();
        assert!(there >= 2, "{there} files in a row: {:?}", steer.counters());

        for path in &files[8..] {
            // The thread that reads ahead has to get a processor at times.
            moment(|| cached_blocks(path) == file_blocks());
            program.read(path);
        }
        drop(program);
        steer.wait_until_calm();
        steer.validate();
        let stat = steer.stat();
        let lists = stat.prefetching.expect("counted").lists;
        assert!(lists.prefetched >= 14 * file_blocks(), "{lists:?}");
        assert!(lists.used * 10 >= lists.prefetched * 9 && lists.failed == 0, "{lists:?}");
        let left = say(&steer, &Hint::GetList, None).expect("told").blocks_left;
        assert_eq!(left, 0, "the list was followed to its end: {lists:?}");
        assert_eq!(cached_blocks(&files[23]), file_blocks(), "there is room for all");
    });
}

#[test]
fn ranges_of_a_file_are_read_in_their_order() {
    in_turn(|| {
        let scratch = Scratch::new("ranges");
        let file = scratch.file("data", 8 << 20);
        let steer = start(16 << 20);
        // Every 32nd block, backwards: no readahead helps.
        let order: Vec<i64> = (0..64).rev().map(|piece| piece * (128 << 10)).collect();
        let ranges = order.iter().map(|start| (*start, start + 4096)).collect();
        let hint = Hint::ListFile { path: (&file).into(), ranges, append: false };
        let answer = say(&steer, &hint, Some(&File::open(&file).expect("opened"))).expect("listed");
        assert_eq!((answer.ranges, answer.blocks_left, answer.trimmed), (64, 64, 0));
        let piece =
            |start: i64| format!("dd if={file} of=/dev/null bs=4k count=1 skip={} status=none", start / 4096);
        for start in &order[..8] {
            sh(&steer, &piece(*start));
        }
        let is_cached = |start: i64| {
            let file = File::open(&file).expect("opened");
            pantler_kernel::pages::count_cached(file.as_fd(), start as u64 / block_bytes(), 1)
                .expect("counted")
                == 1
        };
        until("the next ranges are not there", || order[8..12].iter().all(|start| is_cached(*start)));
        for start in &order[8..] {
            moment(|| is_cached(*start));
            sh(&steer, &piece(*start));
        }
        steer.wait_until_calm();
        steer.validate();
        let lists = steer.stat().prefetching.expect("counted").lists;
        assert!(lists.used >= 48, "{lists:?} {:?}", steer.counters());
    });
}

#[test]
fn lists_that_are_wrong_cost_next_to_nothing() {
    in_turn(|| {
        let scratch = Scratch::new("wrong");
        let (files, foreign) = (files(&scratch, 16), scratch.file("foreign", 4 << 20));
        let steer = start(8 << 20);

        // Of a list that is not read: one block, to see whether it is.
        list(&steer, std::slice::from_ref(&foreign));
        sh(&steer, &format!("cat {} > /dev/null", files.join(" ")));
        steer.wait_until_calm();
        assert!(cached_blocks(&foreign) <= 1, "{} blocks of what is never read", cached_blocks(&foreign));
        assert!(listed(&steer) <= 1, "{:?}", steer.counters());

        // Backwards: given up once it is known to be wrong.
        files.iter().for_each(|path| common::forget(path));
        steer.resynchronise();
        let mut backwards = files.clone();
        backwards.reverse();
        list(&steer, &backwards);
        let before = listed(&steer);
        sh(&steer, &format!("cat {} > /dev/null", files.join(" ")));
        steer.wait_until_calm();
        assert!(listed(&steer) - before <= 2 * file_blocks(), "{:?}", steer.counters());
        steer.validate();
    });
}

#[test]
fn what_others_keep_in_memory_is_left_to_them() {
    in_turn(|| {
        let scratch = Scratch::new("others");
        let files = files(&scratch, 12);
        for path in &files[..6] {
            outside(&format!("cat {path} > /dev/null"));
        }
        let steer = start(8 << 20);
        list(&steer, &files);
        let mut program = Program::start(&steer);
        for path in &files[..7] {
            program.read(path);
        }
        until("the list does not go on behind what others have", || {
            cached_blocks(&files[8]) == file_blocks()
        });
        drop(program);
        steer.wait_until_calm();
        steer.validate();
        assert!(steer.counters().foreign >= 6 * file_blocks(), "{:?}", steer.counters());
        assert!(files[..6].iter().all(|path| cached_blocks(path) == file_blocks()), "not ours to drop");
    });
}

#[test]
fn a_list_keeps_to_the_budget() {
    in_turn(|| {
        let scratch = Scratch::new("budget");
        let files = files(&scratch, 64);
        let budget = 4 << 20;
        let steer = start(budget);
        list(&steer, &files);
        sh(&steer, &format!("cat {} > /dev/null", files.join(" ")));
        steer.wait_until_calm();
        let cached: u64 = files.iter().map(|path| cached_blocks(path)).sum();
        assert!(cached * block_bytes() <= budget, "{cached} blocks are cached: {:?}", steer.counters());
        steer.validate();
    });
}

#[test]
fn nobody_lists_what_he_may_not_read() {
    in_turn(|| {
        let scratch = Scratch::new("rights");
        let path = scratch.file("secret", FILE_BYTES);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("changed");
        let uid = 65_534;
        let steer = common::start_with(8 << 20, |options| options.uid = uid);
        let speaker = Speaker { uid, gid: uid, ..root() };
        let named = pantler_control::client::open_to_name(path.as_ref()).expect("named");
        let hint = Hint::ListFile { path: (&path).into(), ranges: Vec::new(), append: false };
        let refused = steer.body().hint(&speaker, &OwnerSelector::UserDefault, &hint, Some(named.as_fd()));
        let text = refused.expect_err("refused").to_string();
        assert!(text.contains(&path) && text.contains("65534 may not read"), "{text}");
        assert_eq!(say(&steer, &Hint::GetList, None).expect("told"), ListAnswer::default());
    });
}
