//! Servers on loopback, as Debian packages them, each in a folder of its own.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server in a folder of its own, killed with its value.
pub struct Server {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Server {
    /// Starts a program once it is known where it shall listen. `None`, and a line that says why, where it is missing.
    pub fn start(program: &str, words: impl FnOnce(u16, &Path) -> Vec<String>) -> Option<Server> {
        let found = ["/usr/bin", "/usr/sbin"].iter().map(|folder| Path::new(folder).join(program));
        let Some(path) = found.into_iter().find(|path| path.exists()) else {
            assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "{program} is not installed");
            eprintln!("SKIPPED: {program} is not installed");
            return None;
        };
        let port = free_port();
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(path);
        command.args(words(port, folder.path())).current_dir(folder.path());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut server = Server { child: child.expect("it starts"), port, folder };
        let patience = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(server.address()).is_err() {
            let ended = server.child.try_wait().expect("a child");
            assert!(ended.is_none() && Instant::now() < patience, "{program} does not listen: {ended:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Those that have workers end them when they are asked to end.
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let patience = Instant::now() + Duration::from_secs(5);
        while self.child.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.folder.path();
    }
}

pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

pub fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// A Redis server with so much memory.
pub fn redis(maxmemory: &str, policy: &str) -> Option<Server> {
    Server::start("redis-server", |port, _| {
        let mut all = words(&format!("--port {port} --bind 127.0.0.1 --save"));
        all.push(String::new());
        all.extend(words(&format!("--maxmemory {maxmemory} --maxmemory-policy {policy}")));
        all
    })
}

/// A memcached server with 8 MB, and more words.
pub fn memcached(more: &str) -> Option<Server> {
    Server::start("memcached", |port, _| words(&format!("-p {port} -U 0 -l 127.0.0.1 -m 8 -u root {more}")))
}

const NGINX: &str = "daemon off; master_process on; worker_processes 1; user root; pid nginx.pid; error_log stderr crit;
events { worker_connections 64; }
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  proxy_cache_path cache keys_zone=dust:32k use_temp_path=off;
  server { listen 127.0.0.1:PORT; location / { proxy_pass http://127.0.0.1:ORIGIN; proxy_cache dust; } }
}
";

/// nginx as a proxy that caches, before an origin on this port.
pub fn nginx(origin: u16) -> Option<Server> {
    Server::start("nginx", |port, folder| {
        let text = NGINX.replace("PORT", &port.to_string()).replace("ORIGIN", &origin.to_string());
        std::fs::write(folder.join("nginx.conf"), text).expect("written");
        let folder = folder.display().to_string();
        ["-p", &folder, "-c", "nginx.conf", "-e", "stderr"].map(str::to_owned).to_vec()
    })
}
