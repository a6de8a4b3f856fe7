//! The server that keeps blocks for all, as a program.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use pantler_rig::Net;

use crate::eventually;

pub const PORT: u16 = 6379;

/// What keeps blocks for all.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Pantler,
    Redis,
}

pub struct Server<'a> {
    net: &'a Net,
    kind: Kind,
    more: Vec<String>,
    child: Option<Child>,
}

impl<'a> Server<'a> {
    pub fn new(net: &'a Net, kind: Kind) -> Self {
        Self { net, kind, more: Vec::new(), child: None }
    }

    /// With more words.
    pub fn with(mut self, more: &[String]) -> Self {
        self.more = more.to_vec();
        self
    }

    pub fn start(&mut self, memory: &str) {
        let mut command = match self.kind {
            Kind::Pantler => {
                let mut command = self.net.command(0, env!("CARGO_BIN_EXE_pantler"));
                command.args([
                    "tier",
                    "serve",
                    "--json",
                    "--listen",
                    &format!("0.0.0.0:{PORT}"),
                    "--memory",
                    memory,
                ]);
                command
            }
            Kind::Redis => {
                let mut command = self.net.command(0, "redis-server");
                command.args(["--port", &PORT.to_string(), "--bind", "0.0.0.0", "--protected-mode", "no"]);
                command.args([
                    "--maxmemory",
                    &format!("{memory}b"),
                    "--maxmemory-policy",
                    "allkeys-lru",
                    "--save",
                    "",
                ]);
                command
            }
        };
        let child =
            command.args(&self.more).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(child.unwrap());
        eventually("the server listens", || self.say("PING").starts_with('+'));
    }

    /// What the server answers to one word, or nothing.
    pub fn say(&self, word: &str) -> String {
        self.net.within(0, || {
            let Ok(mut stream) = TcpStream::connect(("127.0.0.1", PORT)) else { return String::new() };
            let mut answer = String::new();
            if write!(stream, "*1\r\n${}\r\n{word}\r\n", word.len()).is_ok() {
                let _ = BufReader::new(&mut stream).read_line(&mut answer);
            }
            answer
        })
    }

    pub fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}
