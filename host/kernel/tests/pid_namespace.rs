//! Processes of containers by their ids there and here. The container needs root.

use pantler_kernel::pid_namespace::{here, there};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn a_process_of_our_namespace_has_one_id() {
    let own = std::process::id();
    assert_eq!((here(own, 1), here(own, own), there(own, own)), (Some(1), Some(own), Some(own)));
    assert_eq!((here(u32::MAX, 1), there(u32::MAX, 1)), (None, None), "nobody speaks");
}

#[test]
fn a_process_of_a_container_has_two() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "pid namespaces need root");
        return;
    }
    let script = "sleep 60 & echo $!; wait";
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "sh", "-c", script]).stdout(Stdio::piped());
    let mut container = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(container.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (shell, sleeper) = (1, line.trim().parse::<u32>().unwrap());
    let unshare = container.id();
    let child = fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children")).unwrap();
    let speaker = child.trim().parse::<u32>().unwrap();
    let told = (here(speaker, shell), here(speaker, sleeper).map(|it| (there(speaker, it), it > sleeper)));
    let outside = (here(unshare, 1), there(speaker, unshare), here(speaker, 999_999));
    container.kill().and_then(|()| container.wait()).unwrap();
    assert_eq!(told, (Some(speaker), Some((Some(sleeper), true))));
    assert_eq!(outside, (Some(1), None, None));
}
