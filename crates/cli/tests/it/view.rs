//! `cubeyard view`: access control, and limits on requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::Sandbox;

/// A server in a separate process, which ends with the test.
struct Viewed {
    process: Child,
    host: String,
    token: String,
}

impl Viewed {
    /// Starts the server on a folder, by a command line that ends with the words `view` and the folder.
    fn start(sandbox: &Sandbox, mut command: Command) -> Self {
        let mut process = command
            .args(["view", "."])
            .current_dir(&sandbox.folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        let output = process.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut address).unwrap();
        let rest = address.trim().strip_prefix("http://").expect(&address);
        let (host, token) = rest.split_once("/?token=").expect(&address);
        Self { process, host: host.to_owned(), token: token.to_owned() }
    }

    fn of(sandbox: &Sandbox) -> Self {
        Self::start(sandbox, Command::new(env!("CARGO_BIN_EXE_cubeyard")))
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        stream
    }

    /// Returns the whole answer to a request with more lines in its head.
    fn ask(&self, target: &str, lines: &str) -> String {
        let mut stream = self.connect();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: {}\r\n{lines}\r\n", self.host).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn with_token(&self, target: &str) -> String {
        self.ask(&format!("{target}?token={}", self.token), "")
    }

    /// Returns the largest resident size of the process so far, in KiB.
    fn peak_kib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.process.id());
        let text = std::fs::read_to_string(path).unwrap();
        let line = text.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Viewed {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Any user of the machine could read everything, as the port alone is no secret.
#[test]
fn only_those_who_know_the_token_can_read() {
    let sandbox = Sandbox::new("view-token");
    sandbox.write("a.json", "{\"secret\": 7}");
    let (viewed, other) = (Viewed::of(&sandbox), Viewed::of(&sandbox));
    assert!(viewed.token.len() == 32 && viewed.token != other.token);
    for target in ["/", "/files/a.json", "/show/a.json", "/perfetto/"] {
        let refused = viewed.ask(target, "");
        assert!(refused.starts_with("HTTP/1.1 403 ") && !refused.contains(&viewed.token));
        let wrong = viewed.ask(&format!("{target}?token={}", other.token), "");
        assert!(wrong.starts_with("HTTP/1.1 403 ") && !wrong.contains("secret"), "{wrong}");
    }
    let first = viewed.with_token("/");
    assert!(first.starts_with("HTTP/1.1 200 "), "{first}");
    let cookie = first.lines().find_map(|line| line.strip_prefix("Set-Cookie: ")).unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let later = viewed.ask("/files/a.json", &format!("Cookie: {cookie}\r\n"));
    assert!(later.ends_with("{\"secret\": 7}"), "{later}");
}

/// Each connection had its own thread, and the process ended when no more threads could be started.
#[test]
fn many_connections_and_few_threads_do_not_end_the_server() {
    let sandbox = Sandbox::new("view-threads");
    sandbox.write("a.json", "{}");
    let mut limited = Command::new("prlimit");
    // The limit on threads counts all processes of the user, so address space is limited instead; each stack takes some.
    limited.args(["--as=60000000", env!("CARGO_BIN_EXE_cubeyard")]);
    for mut viewed in [Viewed::of(&sandbox), Viewed::start(&sandbox, limited)] {
        let silent: Vec<_> = (0..100).map(|_| viewed.connect()).collect();
        sleep(Duration::from_millis(300));
        assert!(viewed.process.try_wait().unwrap().is_none(), "the server has ended");
        let tasks = std::fs::read_dir(format!("/proc/{}/task", viewed.process.id())).unwrap();
        assert!(tasks.count() <= 17);
        drop(silent);
        let answer = viewed.with_token("/files/a.json");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
}

/// A client that sent single bytes was served without an end, because the limit of 10 s applied to each read.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test measures a time")]
fn a_request_has_ten_seconds_in_all() {
    let sandbox = Sandbox::new("view-slow");
    sandbox.write("a.json", "{}");
    let viewed = Viewed::of(&sandbox);
    let mut stream = viewed.connect();
    let start = Instant::now();
    stream.write_all(b"GET / HTTP/1.1\r\nX: ").unwrap();
    let ended = (0..60).any(|_| {
        sleep(Duration::from_millis(500));
        stream.write_all(b"y").is_err()
    });
    assert!(ended && start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
    assert!(start.elapsed() > Duration::from_secs(9), "{:?}", start.elapsed());
}

/// A trace was read whole before its first byte was sent, once for each request.
#[test]
fn a_large_trace_is_sent_in_pieces() {
    let sandbox = Sandbox::new("view-large");
    let size = 300 << 20;
    let file = std::fs::File::create(sandbox.path("large.pftrace")).unwrap();
    file.set_len(size).unwrap();
    let viewed = Viewed::of(&sandbox);
    let mut stream = viewed.connect();
    let (host, token) = (&viewed.host, &viewed.token);
    write!(stream, "GET /files/large.pftrace?token={token} HTTP/1.1\r\nHost: {host}\r\n\r\n")
        .unwrap();
    let read = std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
    assert!(read > size && read < size + 1000, "{read}");
    assert!(viewed.peak_kib() < 100 << 10, "{} KiB", viewed.peak_kib());
}

/// 436 KB of records became a page of 122 MB.
#[test]
fn records_with_nothing_in_common_make_a_page_of_ordinary_size() {
    let sandbox = Sandbox::new("view-wide");
    let line = |at: usize| format!("{{\"{}{at}\": {at}}}\n", "k".repeat(150));
    sandbox.write("wide.jsonl", (0..2700).map(line).collect::<String>());
    let viewed = Viewed::of(&sandbox);
    let page = viewed.with_token("/show/wide.jsonl");
    assert!(page.contains("more columns are not shown"), "{}", &page[..2000]);
    assert!(page.len() < 8 << 20, "{}", page.len());
}

/// A request whose head never ends was read up to a limit.
#[test]
fn a_head_without_an_end_is_refused() {
    let sandbox = Sandbox::new("view-endless");
    sandbox.write("a.json", "{}");
    let viewed = Viewed::of(&sandbox);
    let mut stream = viewed.connect();
    let lines = "X: y\r\n".repeat(1 << 14);
    // The server may close the connection before it has read all of this.
    drop(write!(stream, "GET / HTTP/1.1\r\nHost: {}\r\n{lines}", viewed.host));
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    assert!(viewed.with_token("/files/a.json").starts_with("HTTP/1.1 200 "));
}

/// Clients that take no answer hold a place only up to their time limit, and no memory of the size of the file.
#[test]
fn a_client_that_takes_no_answer_keeps_no_other_from_reading() {
    let sandbox = Sandbox::new("view-stalled");
    let file = std::fs::File::create(sandbox.path("large.pftrace")).unwrap();
    file.set_len(64 << 20).unwrap();
    sandbox.write("a.json", "{}");
    let viewed = Viewed::of(&sandbox);
    let ask = || {
        let mut stream = viewed.connect();
        let (host, token) = (&viewed.host, &viewed.token);
        write!(stream, "GET /files/large.pftrace?token={token} HTTP/1.1\r\nHost: {host}\r\n\r\n")
            .unwrap();
        stream
    };
    let stalled: Vec<_> = (0..15).map(|_| ask()).collect();
    assert!(viewed.with_token("/files/a.json").starts_with("HTTP/1.1 200 "));
    assert!(viewed.peak_kib() < 100 << 10, "{} KiB", viewed.peak_kib());
    drop(stalled);
}

/// A request for the head of an answer has its length, and no contents.
#[test]
fn the_head_of_an_answer_has_no_contents() {
    let sandbox = Sandbox::new("view-head");
    sandbox.write("a.json", "{\"a\": 1}");
    let viewed = Viewed::of(&sandbox);
    let mut stream = viewed.connect();
    let (host, token) = (&viewed.host, &viewed.token);
    write!(stream, "HEAD /files/a.json?token={token} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("Content-Length: 8\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
}

/// A page of runs that are compared is the page of `cubeyard compare`.
#[test]
fn two_runs_of_a_file_are_compared() {
    let sandbox = Sandbox::new("view-compare");
    let vary = ["run", "copy", "--vary", "bytes=4096,8192", "--save", "s.jsonl", "--quiet"];
    for arguments in [&vary[..], &["compare", "s.jsonl:1", "s.jsonl:2", "--report", "c.html"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cubeyard"));
        let done = command.args(arguments).current_dir(&sandbox.folder).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    }
    let viewed = Viewed::of(&sandbox);
    let ask = |query: &str| viewed.ask(&format!("/compare?{query}&token={}", viewed.token), "");
    let answer = ask("run=s.jsonl%3A1&run=s.jsonl:2");
    let page = answer.split_once("\r\n\r\n").unwrap().1;
    assert_eq!(page, std::fs::read_to_string(sandbox.path("c.html")).unwrap());
    for (query, problem) in [
        ("run=s.jsonl:1", "expected two runs, found 1"),
        ("run=s.jsonl:1&run=s.jsonl:3", "s.jsonl:3: expected a run"),
        ("run=c.html&run=s.jsonl:2", "c.html: expected a run"),
        ("run=..%2Fs.jsonl&run=s.jsonl:2", "../s.jsonl: expected a run"),
    ] {
        let answer = ask(query);
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains(problem), "{answer}");
    }
}
