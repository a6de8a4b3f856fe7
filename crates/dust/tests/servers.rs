//! Real servers on loopback: Redis, memcached, nginx and Varnish, as Debian packages them.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pantler_dust::infer::family::Family;
use pantler_dust::targets::{HttpTarget, MemcachedTarget, RedisTarget, expectations};
use pantler_dust::{Inquiry, Known, Target, Verdict, investigate};

/// A server in a folder of its own, killed with its value.
struct Server {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Server {
    /// Starts a program once it is known where it shall listen. `None`, and a line that says why, where it is missing.
    fn start(program: &str, words: impl FnOnce(u16, &Path) -> Vec<String>) -> Option<Server> {
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

    fn address(&self) -> String {
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

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn ask(name: &str, target: &mut dyn Target, families: &[&str]) -> Verdict {
    let mut options = expectations(name);
    if !families.is_empty() {
        options.families.retain(|family: &&Family| families.contains(&family.name));
    }
    let start = Instant::now();
    let verdict = investigate(Inquiry::new(options), target).expect("it answers").verdict();
    println!(
        "{name}: {:?} {} capacity {} mismatch {:.4} {:?} {} accesses {:.1?} {:?}",
        verdict.verdict,
        verdict.policy,
        verdict.capacity,
        verdict.mismatch,
        verdict.check,
        verdict.accesses,
        start.elapsed(),
        verdict.likelihoods.iter().take(4).collect::<Vec<_>>()
    );
    verdict
}

fn redis(policy: &str) -> Option<Verdict> {
    let server = Server::start("redis-server", |port, _| {
        words(&format!(
            "--port {port} --bind 127.0.0.1 --save {{}} --maxmemory 8mb --maxmemory-policy {policy}"
        ))
        .into_iter()
        .map(|word| if word == "{}" { String::new() } else { word })
        .collect()
    })?;
    let mut target = RedisTarget::new(&server.address(), None).expect("it answers");
    Some(ask(&format!("redis://{policy}"), &mut target, &[]))
}

fn named(verdict: Option<Verdict>, name: &str) {
    let Some(verdict) = verdict else { return };
    assert_eq!((verdict.verdict, verdict.family.as_str()), (Known::Known, name), "{verdict:?}");
}

/// Most of the time passes in sleep, so all at once.
#[test]
fn redis_by_each_policy() {
    let policies = [
        ("allkeys-lru", "redis-lru"),
        ("allkeys-lfu", "redis-lfu"),
        ("allkeys-random", "random"),
        ("noeviction", "noeviction"),
    ];
    let asked = policies.map(|(policy, name)| (std::thread::spawn(|| redis(policy)), name));
    for (thread, name) in asked {
        named(thread.join().expect("it does not panic"), name);
    }
}

#[test]
fn memcached() {
    let start = |port: u16, _: &Path| words(&format!("-p {port} -U 0 -l 127.0.0.1 -m 8 -u root"));
    let Some(server) = Server::start("memcached", start) else { return };
    let mut target = MemcachedTarget::new(&server.address(), None).expect("it answers");
    let verdict = ask("memcached://", &mut target, &[]);
    assert!(verdict.verdict == Known::Unknown || verdict.family == "memcached", "{verdict:?}");
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

#[test]
fn nginx_proxy_cache() {
    let origin = free_port();
    let start = |port: u16, folder: &Path| {
        let text = NGINX.replace("PORT", &port.to_string()).replace("ORIGIN", &origin.to_string());
        std::fs::write(folder.join("nginx.conf"), text).expect("written");
        vec![
            "-p".into(),
            folder.display().to_string(),
            "-c".into(),
            "nginx.conf".into(),
            "-e".into(),
            "stderr".into(),
        ]
    };
    let Some(server) = Server::start("nginx", start) else { return };
    let url = format!("http://{}", server.address());
    let mut target = HttpTarget::new(&url, &format!("127.0.0.1:{origin}"), None).expect("it answers");
    let verdict = ask(&url, &mut target, &[]);
    assert_eq!((verdict.verdict, verdict.family.as_str()), (Known::Known, "lru"), "{verdict:?}");
}

#[test]
fn varnish() {
    let origin = free_port();
    let start = |port: u16, folder: &Path| {
        words(&format!(
            "-F -a 127.0.0.1:{port} -b 127.0.0.1:{origin} -n {} -s malloc,2m -p lru_interval=0 -p thread_pools=1",
            folder.display()
        ))
    };
    let Some(server) = Server::start("varnishd", start) else { return };
    let url = format!("http://{}", server.address());
    let mut target = HttpTarget::new(&url, &format!("127.0.0.1:{origin}"), Some(16_000)).expect("it answers");
    let verdict = ask(&url, &mut target, &[]);
    assert_eq!((verdict.verdict, verdict.family.as_str()), (Known::Known, "lru"), "{verdict:?}");
}
