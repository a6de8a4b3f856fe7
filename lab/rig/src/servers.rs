//! The servers that Debian packages, as tests want them.

use std::path::Path;

use crate::{Ready, Server};

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// A Redis server without a file, and more words.
pub fn redis(more: &[&str]) -> Option<Server> {
    let ready = Ready::Answers("PING\r\n", "+PONG\r\n");
    Server::start("redis-server", "apt-get install redis-server", ready, |port, folder| {
        let mut all = words(&format!("--port {port} --bind 127.0.0.1 --dir {} --save", folder.display()));
        all.push(String::new());
        all.extend(more.iter().map(|&word| word.to_owned()));
        all
    })
}

/// A memcached server with 8 MB, and more words.
pub fn memcached(more: &str) -> Option<Server> {
    let ready = Ready::Answers("version\r\n", "VERSION ");
    Server::start("memcached", "apt-get install memcached", ready, |port, _| {
        words(&format!("-p {port} -U 0 -l 127.0.0.1 -m 8 -u root {more}"))
    })
}

/// nginx with what a port and a folder make of its configuration.
fn configured(text: impl Fn(u16, &Path) -> String) -> Option<Server> {
    Server::start("/usr/sbin/nginx", "apt-get install nginx-light", Ready::Listens, |port, folder| {
        std::fs::write(folder.join("nginx.conf"), text(port, folder)).expect("written");
        words(&format!("-p {} -c nginx.conf -e stderr", folder.display()))
    })
}

/// nginx in one process, with what stands in `http { ... }` of its configuration for a port.
pub fn nginx(http: impl Fn(u16) -> String) -> Option<Server> {
    configured(|port, folder| {
        let (at, http) = (folder.display(), http(port));
        format!(
            "daemon off; master_process off; user root; pid {at}/pid; error_log stderr;\nevents {{}}\n\
             http {{ access_log off; client_body_temp_path {at}/1; proxy_temp_path {at}/2;\n\
             fastcgi_temp_path {at}/3; uwsgi_temp_path {at}/4; scgi_temp_path {at}/5;\n{http}\n}}\n"
        )
    })
}

const PROXY: &str = "daemon off; master_process on; worker_processes 1; user root; pid nginx.pid; error_log stderr crit;
events { worker_connections 64; }
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  proxy_cache_path cache keys_zone=dust:32k use_temp_path=off;
  server { listen 127.0.0.1:PORT; location / { proxy_pass http://127.0.0.1:ORIGIN; proxy_cache dust; } }
}
";

/// nginx as a proxy that caches, before an origin on this port.
pub fn nginx_proxy(origin: u16) -> Option<Server> {
    configured(|port, _| PROXY.replace("PORT", &port.to_string()).replace("ORIGIN", &origin.to_string()))
}

/// Varnish with 2 MB, before an origin on this port.
pub fn varnish(origin: u16) -> Option<Server> {
    let start = |port: u16, folder: &Path| {
        words(&format!(
            "-F -a 127.0.0.1:{port} -b 127.0.0.1:{origin} -n {} -s malloc,2m -p lru_interval=0 -p thread_pools=1",
            folder.join("varnish").display()
        ))
    };
    Server::start("/usr/sbin/varnishd", "apt-get install varnish", Ready::Listens, start)
}
