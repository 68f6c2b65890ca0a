//! Answers: a status, a content type, and contents that are sent in pieces.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::StatusCode;
use hyper::body::{Body, Bytes, Frame, SizeHint};

/// Size of the pieces in which a file is sent, in bytes.
const PIECE: u64 = 64 << 10;

/// Answer to a request, without the header fields that all answers have.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) kind: &'static str,
    pub(super) contents: Contents,
}

impl Answer {
    /// Returns an answer with a page.
    pub(super) fn page(markup: String) -> Self {
        let kind = "text/html; charset=utf-8";
        Self { status: StatusCode::OK, kind, contents: Contents::Text(markup.into()) }
    }

    /// Returns an answer with an error status and a text that says what to do.
    pub(super) fn refusal(status: StatusCode, help: &str) -> Self {
        let contents = Contents::Text(format!("{status}\n{help}").into());
        Self { status, kind: "text/plain; charset=utf-8", contents }
    }

    pub(super) fn missing() -> Self {
        Self::refusal(StatusCode::NOT_FOUND, "")
    }

    /// Returns an answer with a file, or the answer for a missing one.
    pub(super) fn file(name: &Path, file: io::Result<File>) -> Self {
        let sized = file.and_then(|file| file.metadata().map(|known| (file, known.len())));
        let Ok((file, left)) = sized else { return Self::missing() };
        let contents = Contents::File { file, left };
        Self { status: StatusCode::OK, kind: content_type(name), contents }
    }
}

/// Contents of an answer. A file is read as the client receives it.
#[derive(Debug)]
pub(super) enum Contents {
    /// Text that is not sent yet; empty once it is.
    Text(Bytes),
    /// File with the number of bytes that are not sent yet.
    File { file: File, left: u64 },
}

impl Contents {
    /// Returns the number of bytes that are not sent yet.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::File { left, .. } => *left,
        }
    }

    fn next(&mut self) -> io::Result<Bytes> {
        match self {
            Self::Text(text) => Ok(std::mem::take(text)),
            Self::File { file, left } => {
                let mut piece = Vec::new();
                file.take(PIECE.min(*left)).read_to_end(&mut piece)?;
                *left -= piece.len() as u64;
                // The length has been announced: a file that became shorter ends the connection.
                if piece.is_empty() {
                    Err(ErrorKind::UnexpectedEof.into())
                } else {
                    Ok(piece.into())
                }
            }
        }
    }
}

impl Body for Contents {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let contents = self.get_mut();
        Poll::Ready((!contents.is_end_stream()).then(|| contents.next().map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.len() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len())
    }
}

/// Result of a service, which always answers.
pub(super) type Answered<T> = Result<T, Infallible>;

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
