//! A small HTTP server for one reader on this machine.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::files::{FileKind, Served};
use super::{pages, perfetto};

/// Time after which a silent client is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest request that is read.
const LONGEST: u64 = 16 << 10;

/// Everything that requests are answered from.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) served: Served,
    pub(super) perfetto: Option<PathBuf>,
    pub(super) address: String,
}

/// An answer: status, type of the contents, contents.
#[derive(Debug)]
pub(super) struct Answer {
    status: &'static str,
    kind: &'static str,
    body: Vec<u8>,
}

impl Answer {
    fn page(markup: String) -> Self {
        Self { status: "200 OK", kind: "text/html; charset=utf-8", body: markup.into_bytes() }
    }

    fn refusal(status: &'static str) -> Self {
        let body = format!("{status}\n").into_bytes();
        Self { status, kind: "text/plain; charset=utf-8", body }
    }

    fn file(path: &Path) -> Self {
        match fs::read(path) {
            Ok(body) => Self { status: "200 OK", kind: content_type(path), body },
            Err(_) => Self::refusal("404 Not Found"),
        }
    }
}

impl Server {
    /// Answers requests until the process ends, each in a thread of its own.
    pub(super) fn serve(self, listener: &TcpListener) {
        let server = Arc::new(self);
        for stream in listener.incoming().flatten() {
            let server = Arc::clone(&server);
            // A client that went away needs no answer.
            std::thread::spawn(move || server.handle(&stream).ok());
        }
    }

    fn handle(&self, stream: &TcpStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut lines = BufReader::new(stream.take(LONGEST)).lines();
        let request = lines.next().transpose()?.unwrap_or_default();
        let mut host = String::new();
        for line in lines {
            let line = line?;
            match line.split_once(':') {
                Some((name, value)) if name.eq_ignore_ascii_case("host") => {
                    value.trim().clone_into(&mut host);
                }
                None => break,
                Some(_) => {}
            }
        }
        let Answer { status, kind, body } = self.answer(&request, &host);
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nContent-Security-Policy: default-src 'self' {} data: blob: \
             'unsafe-inline' 'unsafe-eval'\r\nConnection: close\r\n\r\n",
            body.len(),
            self.address
        );
        let mut stream = stream;
        stream.write_all(head.as_bytes())?;
        if !request.starts_with("HEAD ") {
            stream.write_all(&body)?;
        }
        stream.flush()
    }

    /// Answers a request line. `host` must name this server, so that no page from elsewhere can read files through it.
    pub(super) fn answer(&self, request: &str, host: &str) -> Answer {
        let words: Vec<&str> = request.split(' ').collect();
        let [method, target, _] = words[..] else { return Answer::refusal("400 Bad Request") };
        if !["GET", "HEAD"].contains(&method) {
            return Answer::refusal("405 Method Not Allowed");
        }
        if !self.is_own(host) {
            return Answer::refusal("403 Forbidden");
        }
        let path = target.split(['?', '#']).next().unwrap_or_default();
        match decoded(path) {
            Some(path) => self.contents(&path),
            None => Answer::refusal("400 Bad Request"),
        }
    }

    fn is_own(&self, host: &str) -> bool {
        let own = self.address.trim_start_matches("http://").trim_end_matches('/');
        host == own || host == own.replace("127.0.0.1", "localhost")
    }

    fn contents(&self, path: &str) -> Answer {
        if path == "/" {
            return Answer::page(pages::index(
                &self.served,
                self.perfetto.is_some(),
                &self.address,
            ));
        }
        if let Some(name) = path.strip_prefix("/perfetto/") {
            let found = self.perfetto.as_deref().and_then(|folder| perfetto::file(folder, name));
            return found
                .map_or_else(|| Answer::refusal("404 Not Found"), |path| Answer::file(&path));
        }
        let (shows, name) = match path.strip_prefix("/show/") {
            Some(name) => (true, name),
            None => (false, path.strip_prefix("/files/").unwrap_or_default()),
        };
        match self.served.files.get(name) {
            Some((path, FileKind::Record)) if shows => Answer::page(pages::record(name, path)),
            Some((path, _)) => Answer::file(path),
            None => Answer::refusal("404 Not Found"),
        }
    }
}

/// Decodes `%20` and the like; `None` if it is not UTF-8 in the end.
fn decoded(path: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), path.as_bytes());
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).ok()
}

fn content_type(path: &Path) -> &'static str {
    match path.extension().and_then(|ending| ending.to_str()).unwrap_or_default() {
        "html" | "htm" => "text/html; charset=utf-8",
        "svg" => "image/svg+xml",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "json" | "jsonl" => "application/json",
        "wasm" => "application/wasm",
        "png" => "image/png",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn status(request: &str, host: &str) -> &'static str {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let files = BTreeMap::from([("a b/ü.html".to_owned(), (path, FileKind::Page))]);
        let address = "http://127.0.0.1:4000/".to_owned();
        Server { served: Served { files }, perfetto: None, address }.answer(request, host).status
    }

    #[test]
    fn only_listed_files_are_served_and_only_to_this_machine() {
        let own = "127.0.0.1:4000";
        assert_eq!(status("GET / HTTP/1.1", own), "200 OK");
        assert_eq!(status("GET / HTTP/1.1", "localhost:4000"), "200 OK");
        assert_eq!(status("GET /files/a%20b/%C3%BC.html?x=1 HTTP/1.1", own), "200 OK");
        for path in [
            "/files/../Cargo.toml",
            "/files/a%20b/../ü.html",
            "/etc/passwd",
            "/files/",
            "/perfetto/",
        ] {
            assert_eq!(status(&format!("GET {path} HTTP/1.1"), own), "404 Not Found", "{path}");
        }
        assert_eq!(status("GET / HTTP/1.1", "example.org"), "403 Forbidden");
        assert_eq!(status("POST / HTTP/1.1", own), "405 Method Not Allowed");
        for request in ["", "GET /", "GET /%zz HTTP/1.1", "GET /% HTTP/1.1", "GET /%ff HTTP/1.1"] {
            assert_eq!(status(request, own), "400 Bad Request", "{request}");
        }
    }
}
