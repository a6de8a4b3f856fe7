//! Network namespaces: one for a server, and one for each client, with a cable between.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::missing;

/// Headers of a packet: Ethernet, IP, and TCP with its time stamps.
pub const HEADER_BYTES: u64 = 14 + 20 + 20 + 12;
/// What a packet of a connection carries at most: what an Ethernet frame holds beside the headers
/// of IP and TCP.
pub const SEGMENT_BYTES: u64 = 1500 - 20 - 20 - 12;

static NETS: AtomicU32 = AtomicU32::new(0);

/// Namespaces and cables, gone with their value.
#[derive(Debug)]
pub struct Net {
    /// The server's, and the clients'.
    names: Vec<String>,
}

/// What went over cables.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Everything, headers and acknowledgements included.
    pub bytes: u64,
    /// Packets, as senders hand them over.
    pub packets: u64,
    /// Those of them that were sent again, because a busy machine lost them or was late.
    pub repeated: u64,
}

impl Traffic {
    /// Bytes that programs sent each other.
    pub fn said(&self) -> u64 {
        self.bytes - self.packets * HEADER_BYTES
    }

    /// What went since then.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            bytes: self.bytes - before.bytes,
            packets: self.packets - before.packets,
            repeated: self.repeated - before.repeated,
        }
    }
}

/// Bytes of a command of RESP with words of these lengths.
pub fn command_bytes(words: &[usize]) -> usize {
    let head = |number: usize| 1 + number.to_string().len() + 2;
    head(words.len()) + words.iter().map(|length| head(*length) + length + 2).sum::<usize>()
}

fn ip(words: &str) -> bool {
    let output = Command::new("ip").args(words.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}

impl Net {
    /// `None`, and a line that says why, where there can be none.
    pub fn new(clients: usize) -> Option<Self> {
        let (id, net) = (std::process::id(), NETS.fetch_add(1, Ordering::SeqCst));
        let names = (0..=clients).map(|number| format!("pantler-{id}-{net}-{number}")).collect();
        let net = Self { names };
        if net.lay() {
            return Some(net);
        }
        missing("root and iproute2, to make network namespaces", "apt-get install iproute2");
        None
    }

    fn lay(&self) -> bool {
        let server = &self.names[0];
        let cable = |(number, client): (usize, &String)| {
            ip(&format!("link add s{number} netns {server} type veth peer name c netns {client}"))
                && ip(&format!("-n {server} addr add 10.77.{number}.1/24 dev s{number}"))
                && ip(&format!("-n {server} link set s{number} up"))
                && ip(&format!("-n {client} addr add 10.77.{number}.2/24 dev c"))
                && ip(&format!("-n {client} link set c up"))
        };
        self.names.iter().all(|name| ip(&format!("netns add {name}")))
            && ip(&format!("-n {server} link set lo up"))
            && self.names.iter().enumerate().skip(1).all(cable)
    }

    /// The server as that client, from 1 on, sees it.
    pub fn server(&self, client: usize) -> String {
        format!("10.77.{client}.1")
    }

    /// A command that begins in a namespace: 0 is the server's.
    pub fn command(&self, number: usize, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.names[number])).args(["--", program]);
        command
    }

    /// Does something in a namespace: sockets made there stay there.
    pub fn within<R: Send>(&self, number: usize, work: impl FnOnce() -> R + Send) -> R {
        let space = File::open(format!("/run/netns/{}", self.names[number])).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            thread.join().unwrap()
        })
    }

    /// Cuts all cables, or mends them.
    pub fn cut(&self, is_cut: bool) {
        let state = if is_cut { "down" } else { "up" };
        for number in 1..self.names.len() {
            assert!(
                ip(&format!("-n {} link set s{number} {state}", self.names[0])),
                "cable {number} {state}"
            );
        }
    }

    /// Connections made from now on send packets as a real cable carries them, of [`SEGMENT_BYTES`]
    /// at most. Without this a packet between namespaces is as large as what is written at once.
    pub fn split_packets(&self) {
        for number in 1..self.names.len() {
            for (name, cable) in [(&self.names[0], format!("s{number}")), (&self.names[number], "c".into())] {
                assert!(ip(&format!("-n {name} link set {cable} gso_max_segs 1")), "cable {number}");
            }
        }
    }

    /// What went over all cables so far, both ways.
    pub fn traffic(&self) -> Traffic {
        let table = self.within(0, || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap());
        let repeated = (0..self.names.len()).map(|number| self.within(number, repeated)).sum();
        let mut sum = Traffic { bytes: 0, packets: 0, repeated };
        for line in table.lines() {
            let Some((name, numbers)) = line.split_once(':') else { continue };
            if name.trim().starts_with('s') {
                let numbers: Vec<u64> =
                    numbers.split_whitespace().filter_map(|word| word.parse().ok()).collect();
                sum.bytes += numbers[0] + numbers[8];
                sum.packets += numbers[1] + numbers[9];
            }
        }
        sum
    }
}

/// Packets of TCP that this namespace sent again.
fn repeated() -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = table.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, numbers) = (lines.next().unwrap(), lines.next().unwrap());
    let found = names.split(' ').zip(numbers.split(' ')).find(|(name, _)| *name == "RetransSegs");
    found.unwrap().1.parse().unwrap()
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&format!("netns del {name}"));
        }
    }
}
