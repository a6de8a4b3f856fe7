//! Requests to servers of stores, by the text of HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;

use pantler_rig::Server;

/// Sends something, with more fields of its head, one line each.
///
/// # Panics
///
/// Where it is refused: with what the server said.
pub fn send(server: &Server, method: &str, path: &str, fields: &str, bytes: &[u8]) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let length = bytes.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\nConnection: close\r\n{fields}\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{method} {path}: {answer}");
}

/// A key as part of an address, every byte by its number but these.
pub fn escaped(key: &str, plain: &str) -> String {
    let byte = |byte: u8| match plain.as_bytes().contains(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02x}"),
    };
    key.bytes().map(byte).collect()
}
