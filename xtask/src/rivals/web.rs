//! Web servers over one folder, and the clients that ask them all the same.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

use super::arms::Rival;
use crate::shell;

/// The clients, and the files that they ask for.
pub const BUILD: &str = "cargo build --release --package pantler-web --example ask";
const CLIENTS: &str = "target/release/examples/ask";
/// Where servers listen, and where nginx listens for Varnish.
pub const PORT: u16 = 9395;
const PORT_BEHIND: u16 = 9396;
const NGINX: &str = include_str!("../../../serve/web/benches/order/nginx.conf");
const APACHE: &str = include_str!("apache.conf");
/// Of nginx: one for each processor of a small machine.
const WORKERS: &str = "2";
/// Of `pantler web`, between disk and network: it comes out of the budget.
const BUFFERS: &str = "16M";

/// The program of the clients.
pub fn clients() -> Result<PathBuf> {
    Path::new(CLIENTS).canonicalize().context("the clients of web servers are not built")
}

/// Fills a new folder with the files.
pub fn write(folder: &Path) -> Result<()> {
    fs::create_dir(folder)?;
    let words = [&clients()?.display().to_string(), "files", &folder.display().to_string()];
    shell::output(&words).map(drop)
}

/// Servers over a folder.
pub struct Site<'a> {
    pub root: &'a Path,
    pub pantler: &'a Path,
    /// For configurations and what servers write.
    pub folder: &'a Path,
    pub budget: u64,
}

impl Site<'_> {
    /// Words of the servers of a rival, and their ports; those that others ask come first.
    pub fn serving(&self, rival: Rival) -> Result<Vec<(Vec<String>, u16)>> {
        fs::create_dir_all(self.folder)?;
        let web = {
            let (pantler, root) = (self.pantler.display().to_string(), self.root.display().to_string());
            let listen = format!("127.0.0.1:{PORT}");
            let words = [&pantler, "web", "--root", &root, "--listen", &listen, "--buffers", BUFFERS];
            words.map(str::to_owned).to_vec()
        };
        Ok(match rival {
            Rival::Nginx => vec![(self.nginx(PORT, "sendfile on;\n    aio threads;")?, PORT)],
            Rival::Apache => vec![(self.apache()?, PORT)],
            Rival::Varnish => {
                // What Varnish keeps must not be in the page cache, too.
                let behind =
                    self.nginx(PORT_BEHIND, "directio 1;\n    aio threads;\n    output_buffers 1 512k;")?;
                vec![(behind, PORT_BEHIND), (self.varnish(), PORT)]
            }
            Rival::WebRun => {
                let (pantler, budget) = (self.pantler.display().to_string(), self.budget.to_string());
                let run = [&pantler, "run", "--quiet", "--memory", &budget, "--profile", "none", "--"];
                vec![(run.map(str::to_owned).into_iter().chain(web).collect(), PORT)]
            }
            _ => vec![(web, PORT)],
        })
    }

    fn nginx(&self, port: u16, reads: &str) -> Result<Vec<String>> {
        let text = self.filled(NGINX, port).replace("WORKERS", WORKERS).replace("READS", reads);
        let path = self.folder.join(format!("nginx-{port}.conf"));
        fs::write(&path, text)?;
        Ok(["/usr/sbin/nginx", "-c", &path.display().to_string()].map(str::to_owned).into())
    }

    fn apache(&self) -> Result<Vec<String>> {
        let path = self.folder.join("apache.conf");
        fs::write(&path, self.filled(APACHE, PORT))?;
        let words = ["/usr/sbin/apache2", "-D", "FOREGROUND", "-f", &path.display().to_string()];
        Ok(words.map(str::to_owned).into())
    }

    fn varnish(&self) -> Vec<String> {
        let (listen, behind) = (format!("127.0.0.1:{PORT}"), format!("127.0.0.1:{PORT_BEHIND}"));
        let (folder, storage) = (self.folder.join("varnish"), format!("malloc,{}b", self.budget));
        let folder = folder.display().to_string();
        let words = ["/usr/sbin/varnishd", "-F", "-j", "none", "-a", &listen, "-b", &behind, "-n", &folder];
        // Its log is memory, too; the least there is.
        let more = ["-s", &storage, "-p", "vsl_space=1M", "-p", "thread_pool_min=10", "-p", "default_ttl=1h"];
        words.into_iter().chain(more).map(str::to_owned).collect()
    }

    fn filled(&self, text: &str, port: u16) -> String {
        text.replace("PORT", &port.to_string())
            .replace("FOLDER", &self.folder.display().to_string())
            .replace("ROOT", &self.root.display().to_string())
    }
}
