//! Small HTTP server for one reader on this machine.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::deadline::Deadline;
use super::files::{FileKind, Served};
use super::request::{Request, decoded};
use super::{pages, perfetto};

/// Time limit for a client to send its request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Minimum rate at which a client must receive an answer, in bytes per second, in addition to [`PATIENCE`].
const LEAST_PER_SECOND: u64 = 1 << 20;
/// Maximum number of requests that are answered concurrently; others wait to be accepted.
const AT_A_TIME: usize = 16;
/// Delay after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// Data from which requests are answered.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) served: Served,
    pub(super) perfetto: Option<PathBuf>,
    /// TCP port on the loopback interface.
    pub(super) port: u16,
    /// Secret that a client must present; known only to the user who started the server.
    pub(super) token: String,
}

/// Contents of an answer.
#[derive(Debug)]
enum Body {
    Text(String),
    File(File, u64),
}

/// Answer: status, content type and contents.
#[derive(Debug)]
pub(super) struct Answer {
    status: &'static str,
    kind: &'static str,
    body: Body,
}

impl Answer {
    fn page(markup: String) -> Self {
        Self { status: "200 OK", kind: "text/html; charset=utf-8", body: Body::Text(markup) }
    }

    fn refusal(status: &'static str, help: &str) -> Self {
        let body = Body::Text(format!("{status}\n{help}"));
        Self { status, kind: "text/plain; charset=utf-8", body }
    }

    fn missing() -> Self {
        Self::refusal("404 Not Found", "")
    }

    fn file(name: &Path, file: io::Result<File>) -> Self {
        let sized = file.and_then(|file| file.metadata().map(|known| (file, known.len())));
        match sized {
            Ok((file, size)) => {
                Self { status: "200 OK", kind: content_type(name), body: Body::File(file, size) }
            }
            Err(_) => Self::missing(),
        }
    }

    fn len(&self) -> u64 {
        match &self.body {
            Body::Text(text) => text.len() as u64,
            Body::File(_, size) => *size,
        }
    }
}

impl Server {
    /// Answers requests until the process ends, on up to [`AT_A_TIME`] threads.
    pub(super) fn serve(&self, listener: &TcpListener) {
        thread::scope(|scope| {
            for _ in 1..AT_A_TIME {
                let made = thread::Builder::new().spawn_scoped(scope, || self.work(listener));
                // If no more threads can be started, the existing ones serve.
                if made.is_err() {
                    break;
                }
            }
            self.work(listener);
        });
    }

    fn work(&self, listener: &TcpListener) {
        loop {
            match listener.accept() {
                // A client that has disconnected needs no answer.
                Ok((stream, _)) => drop(self.handle(&stream)),
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    fn handle(&self, stream: &TcpStream) -> io::Result<()> {
        let request = Request::read(Deadline::new(stream, PATIENCE))?;
        let answer = self.answer(&request);
        let taken = Duration::from_secs(answer.len() / LEAST_PER_SECOND);
        let mut stream = Deadline::new(stream, PATIENCE + taken);
        stream.write_all(self.head(&answer, &request).as_bytes())?;
        match answer.body {
            _ if request.line.starts_with("HEAD ") => {}
            Body::Text(text) => stream.write_all(text.as_bytes())?,
            Body::File(file, size) => drop(io::copy(&mut file.take(size), &mut stream)?),
        }
        stream.flush()
    }

    fn head(&self, answer: &Answer, request: &Request) -> String {
        let Answer { status, kind, .. } = answer;
        let cookie = if self.is_known(request) {
            let (name, token) = (self.cookie(), &self.token);
            format!("Set-Cookie: {name}={token}; Path=/; HttpOnly; SameSite=Strict\r\n")
        } else {
            String::new()
        };
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n{cookie}Content-Security-Policy: \
             default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval'\r\nConnection: close\r\n\r\n",
            answer.len()
        )
    }

    /// Answers a request. It must name this server, so that no page from elsewhere can read files through it. It must
    /// also have the token, so that no other user of this machine can.
    pub(super) fn answer(&self, request: &Request) -> Answer {
        let Some((method, target)) = request.target() else {
            return Answer::refusal("400 Bad Request", "");
        };
        if !["GET", "HEAD"].contains(&method) {
            return Answer::refusal("405 Method Not Allowed", "");
        }
        if !self.is_known(request) {
            let help = "open the address that `cubeyard view` has printed, with its token\n";
            return Answer::refusal("403 Forbidden", help);
        }
        let path = target.split(['?', '#']).next().unwrap_or_default();
        match decoded(path) {
            Some(path) => self.contents(&path, &request.host),
            None => Answer::refusal("400 Bad Request", ""),
        }
    }

    /// Returns whether a request names this server and has the token.
    fn is_known(&self, request: &Request) -> bool {
        let own = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{}", self.port));
        own.contains(&request.host) && request.has_token(&self.cookie(), &self.token)
    }

    /// Returns the name of the cookie. It contains the port, because browsers send cookies to all ports of a host.
    fn cookie(&self) -> String {
        format!("cubeyard-{}", self.port)
    }

    fn contents(&self, path: &str, host: &str) -> Answer {
        if path == "/" {
            let address = format!("http://{host}/");
            return Answer::page(pages::index(&self.served, self.perfetto.is_some(), &address));
        }
        if let Some(name) = path.strip_prefix("/perfetto/") {
            let found = self.perfetto.as_deref().and_then(|folder| perfetto::file(folder, name));
            return found
                .map_or_else(Answer::missing, |path| Answer::file(&path, File::open(&path)));
        }
        let (shows, name) = match path.strip_prefix("/show/") {
            Some(name) => (true, name),
            None => (false, path.strip_prefix("/files/").unwrap_or_default()),
        };
        match (self.served.kind(name), self.served.open(name)) {
            (Some(FileKind::Record), Ok(file)) if shows => Answer::page(pages::record(name, file)),
            (_, file) => Answer::file(Path::new(name), file),
        }
    }
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
    use std::fs;

    use super::*;

    fn server() -> Server {
        let name = format!("cubeyard-server-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(folder.join("a b")).unwrap();
        fs::write(folder.join("a b/ü.html"), "<p>").unwrap();
        let served = Served::find(&folder).unwrap();
        Server { served, perfetto: None, port: 4000, token: "abc".to_owned() }
    }

    fn status(line: &str, host: &str) -> &'static str {
        let cookies = "cubeyard-4000=abc".to_owned();
        let request = Request { line: line.to_owned(), host: host.to_owned(), cookies };
        server().answer(&request).status
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

    /// Any user of the machine could read what was served.
    #[test]
    fn nothing_is_served_without_the_token() {
        let host = "127.0.0.1:4000".to_owned();
        for (target, cookies, expected) in [
            ("/", "", "403 Forbidden"),
            ("/files/a%20b/%C3%BC.html", "cubeyard-4000=abd", "403 Forbidden"),
            ("/?token=ab", "", "403 Forbidden"),
            ("/?token=abc", "", "200 OK"),
            ("/", "cubeyard-4000=abc", "200 OK"),
        ] {
            let line = format!("GET {target} HTTP/1.1");
            let request = Request { line, host: host.clone(), cookies: cookies.to_owned() };
            let (server, answer) = (server(), server().answer(&request));
            assert_eq!(answer.status, expected, "{target} {cookies}");
            let gives = server.head(&answer, &request).contains("cubeyard-4000=abc;");
            assert_eq!(gives, expected == "200 OK", "the token is told to those who know it");
        }
    }
}
