//! HTTP server for one reader on this machine: access, limits, and the pages by address.
//!
//! The library `hyper` reads requests and writes answers. All connections share one thread; the reader is one person.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{self, HOST};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime;
use tokio::sync::Semaphore;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep, timeout_at};

use super::answer::{Answer, Answered, Contents};
use super::files::{FileKind, Served};
use super::request::{decoded, has_token};
use super::{index, pages, perfetto};

/// Time limit for a client to send its request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Minimum rate at which a client must receive an answer, in bytes per second, in addition to [`PATIENCE`].
const LEAST_PER_SECOND: u64 = 1 << 20;
/// Maximum number of requests that are answered concurrently; others wait to be accepted.
const AT_A_TIME: usize = 16;
/// Maximum length of the head of a request, in bytes.
const LONGEST: usize = 16 << 10;
/// Delay after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// Sources from which pages may load: this server and themselves.
const SOURCES: &str = "default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval'";

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

impl Server {
    /// Answers requests until the process ends.
    pub(super) fn serve(self, listener: TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        LocalSet::new().block_on(&runtime, Rc::new(self).accept(listener))
    }

    async fn accept(self: Rc<Self>, listener: TcpListener) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let free = Arc::new(Semaphore::new(AT_A_TIME));
        loop {
            let place = Arc::clone(&free).acquire_owned().await.map_err(io::Error::other)?;
            let Ok((stream, _)) = listener.accept().await else {
                sleep(PAUSE).await;
                continue;
            };
            let server = Rc::clone(&self);
            spawn_local(async move {
                server.handle(stream).await;
                drop(place);
            });
        }
    }

    /// Answers the request of a connection, and closes it. The connection also ends at its time limit, which grows when
    /// the length of the answer is known.
    async fn handle(&self, stream: TcpStream) {
        let until = Cell::new(Instant::now() + PATIENCE);
        let service = service_fn(|request| {
            let response = self.respond(&request);
            let taken = Duration::from_secs(response.body().len() / LEAST_PER_SECOND);
            until.set(Instant::now() + PATIENCE + taken);
            async { Answered::Ok(response) }
        });
        let mut http = http1::Builder::new();
        http.keep_alive(false).max_buf_size(LONGEST).title_case_headers(true);
        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
        loop {
            let limit = until.get();
            // A client that has disconnected needs no answer.
            if timeout_at(limit, &mut connection).await.is_ok() || until.get() == limit {
                break;
            }
        }
    }

    fn respond<B>(&self, request: &Request<B>) -> Response<Contents> {
        let Answer { status, kind, contents } = self.answer(request);
        let mut response = Response::builder()
            .status(status)
            .header(header::CONTENT_TYPE, kind)
            .header(header::CACHE_CONTROL, "no-store")
            .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
            .header(header::REFERRER_POLICY, "no-referrer")
            .header(header::CONTENT_SECURITY_POLICY, SOURCES);
        if self.host(request).is_some() {
            let (name, token) = (self.cookie(), &self.token);
            let cookie = format!("{name}={token}; Path=/; HttpOnly; SameSite=Strict");
            response = response.header(header::SET_COOKIE, cookie);
        }
        response.body(contents).expect("the fields are ASCII")
    }

    /// Answers a request. It must name this server, so that no page from elsewhere can read files through it. It must
    /// also have the token, so that no other user of this machine can.
    fn answer<B>(&self, request: &Request<B>) -> Answer {
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return Answer::refusal(StatusCode::METHOD_NOT_ALLOWED, "");
        }
        let Some(host) = self.host(request) else {
            let help = "open the address that `cubeyard view` has printed, with its token\n";
            return Answer::refusal(StatusCode::FORBIDDEN, help);
        };
        match decoded(request.uri().path()) {
            Some(path) => self.contents(&path, request.uri().query().unwrap_or_default(), host),
            None => Answer::refusal(StatusCode::BAD_REQUEST, ""),
        }
    }

    /// Returns the host that a request names; `None` if it does not name this server, or does not have the token.
    fn host<'a, B>(&self, request: &'a Request<B>) -> Option<&'a str> {
        let own = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{}", self.port));
        let host = request.headers().get(HOST)?.to_str().ok()?;
        let is_own = own.iter().any(|own| own == host);
        (is_own && has_token(request, &self.cookie(), &self.token)).then_some(host)
    }

    /// Returns the name of the cookie. It contains the port, because browsers send cookies to all ports of a host.
    fn cookie(&self) -> String {
        format!("cubeyard-{}", self.port)
    }

    fn contents(&self, path: &str, query: &str, host: &str) -> Answer {
        if let Some(name) = path.strip_prefix("/perfetto/") {
            let found = self.perfetto.as_deref().and_then(|folder| perfetto::file(folder, name));
            return found
                .map_or_else(Answer::missing, |path| Answer::file(&path, File::open(&path)));
        }
        if let Some(name) = path.strip_prefix("/files/") {
            return Answer::file(Path::new(name), self.served.open(name));
        }
        if let Some(name) = path.strip_prefix("/show/") {
            let is_record = self.served.kind(name) == Some(FileKind::Record);
            return if is_record {
                pages::record(&self.served, name, query)
            } else {
                Answer::missing()
            };
        }
        match path {
            "/" => {
                let perfetto_at = self.perfetto.as_ref().map(|_| format!("http://{host}/"));
                Answer::page(index::page_of(&self.served, perfetto_at.as_deref()))
            }
            "/compare" => pages::compared(&self.served, query),
            _ => Answer::missing(),
        }
    }
}

#[cfg(test)]
mod tests;
