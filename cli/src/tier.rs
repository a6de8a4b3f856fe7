//! `pantler tier serve`: a tier for several mounts, in the memory of this machine.

use anyhow::Result;
use clap::{Args, Subcommand};
use pantler_control::Size;
use pantler_tier::read_secret;
use pantler_tier_server::{ServeOptions, Server};
use serde::Serialize;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::passwords::{PASSWORD, refused};
use crate::{output, values};

/// Keep blocks for several mounts.
#[derive(Debug, Args)]
pub struct Tier {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Serve blocks over RESP, the protocol of Redis, until told to end
    Serve(Serve),
}

#[derive(Debug, Args)]
struct Serve {
    /// Where to listen, such as 127.0.0.1:6379; port 0 for any
    #[arg(long, value_name = "HOST:PORT", value_parser = crate::web::address)]
    listen: SocketAddr,
    /// Memory for blocks and everything around them, such as 8G
    #[arg(long, value_name = "SIZE|%", value_parser = values::memory)]
    memory: Size,
    /// Certificate chain for TLS, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its key, in PEM, readable by you alone
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// File with the password that clients must know, readable by you alone; without it
    /// PANTLER_TIER_PASSWORD, or none
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Most connections at a time
    #[arg(long, value_name = "COUNT", default_value = "1024")]
    clients: usize,
    /// Say where it listens as one JSON object
    #[arg(long)]
    json: bool,
}

/// The message about a server that is ready.
#[derive(Serialize)]
struct Record {
    listen: SocketAddr,
    memory_bytes: u64,
    tls: bool,
    password: bool,
    pid: u32,
}

/// Does what the words say.
pub fn tier(words: &Tier) -> Result<()> {
    let What::Serve(serve) = &words.what;
    let password = read_secret(serve.password_file.as_deref(), PASSWORD).map_err(refused)?;
    let options = ServeOptions {
        tls: serve.tls_cert.clone().zip(serve.tls_key.clone()),
        password,
        clients_max: serve.clients,
        ..ServeOptions::new(serve.listen, serve.memory.bytes())
    };
    if options.password.is_none() && !serve.listen.ip().is_loopback() {
        tracing::warn!("no password: all clients of {} can read and change all blocks", serve.listen);
    }
    let stop = crate::children::told_to_end()?;
    let server = Server::bind(&options).map_err(refused)?;
    let record = Record {
        listen: server.address()?,
        memory_bytes: serve.memory.bytes(),
        tls: options.tls.is_some(),
        password: options.password.is_some(),
        pid: std::process::id(),
    };
    if serve.json {
        output::json("tier-serve", &record)?;
    } else {
        output::text(&format!("listening on {}, {} of memory\n", record.listen, serve.memory.rounded()))?;
    }
    Ok(server.run(&stop)?)
}
