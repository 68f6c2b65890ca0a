//! Collects the licences of all crates that are linked into the native module, and of what they bring along.

#![expect(clippy::disallowed_methods, reason = "cargo speaks to a build script by the environment")]

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Beginnings of the names of files with a licence or a notice, in lower case.
const NAMES: [&str; 5] = ["licen", "copying", "notice", "unlicense", "copyright"];

/// Folder of uPlot, which is put into pages and is no crate.
const VENDOR: &str = "../draw/vendor";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    println!("cargo::rerun-if-changed={VENDOR}");
    let metadata = metadata()?;
    let out = PathBuf::from(env::var("OUT_DIR")?).join("licences.txt");
    fs::write(out, text(&linked(&metadata), &metadata)?)?;
    Ok(())
}

fn metadata() -> Result<Value, Box<dyn Error>> {
    let mut command = Command::new(env::var("CARGO")?);
    command.args(["metadata", "--format-version=1", "--filter-platform", &env::var("TARGET")?]);
    let output = command.current_dir(env::var("CARGO_MANIFEST_DIR")?).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Returns the ids of the crates on which the module depends, other than for building and testing.
fn linked(metadata: &Value) -> BTreeSet<&str> {
    let nodes = metadata["resolve"]["nodes"].as_array().into_iter().flatten();
    let nodes: BTreeMap<_, _> =
        nodes.filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let mut found = BTreeSet::new();
    let mut open: Vec<_> = metadata["resolve"]["root"].as_str().into_iter().collect();
    while let Some(id) = open.pop() {
        if found.insert(id) {
            let used = nodes[id]["deps"].as_array().into_iter().flatten();
            open.extend(
                used.filter(|used| is_linked(used)).filter_map(|used| used["pkg"].as_str()),
            );
        }
    }
    found
}

fn is_linked(used: &Value) -> bool {
    used["dep_kinds"].as_array().into_iter().flatten().any(|kind| kind["kind"].is_null())
}

/// Returns the texts of the licences, each once, with the crates to which it applies.
fn text(linked: &BTreeSet<&str>, metadata: &Value) -> Result<String, Box<dyn Error>> {
    let mut text =
        "Crates that are linked into cubeyard._native, and their licences.\n\n".to_owned();
    let mut by_text: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let is_foreign = package["source"].is_string();
        if !is_foreign || !package["id"].as_str().is_some_and(|id| linked.contains(id)) {
            continue;
        }
        let field = |name: &str| package[name].as_str().unwrap_or_default();
        let name = format!("{} {}", field("name"), field("version"));
        writeln!(text, "{name}: {}", field("license"))?;
        for file in licences(Path::new(field("manifest_path")))? {
            by_text.entry(file).or_default().push(name.clone());
        }
    }
    let plot = format!("uPlot {}", plot_version()?);
    writeln!(text, "{plot}: MIT")?;
    by_text.entry(fs::read_to_string(format!("{VENDOR}/uPlot-LICENSE"))?).or_default().push(plot);
    for (licence, crates) in by_text {
        writeln!(text, "\n{}\n{}\n\n{}", "=".repeat(72), crates.join(", "), licence.trim_end())?;
    }
    Ok(text)
}

/// Returns the version of uPlot, of the first line of its file: `… (v1.6.32) */`.
fn plot_version() -> Result<String, Box<dyn Error>> {
    let script = fs::read_to_string(format!("{VENDOR}/uPlot.iife.min.js"))?;
    let line = script.lines().next().unwrap_or_default();
    let version = line.split_once("(v").and_then(|(_, rest)| rest.split_once(')'));
    Ok(version.ok_or("uPlot names its version in its first line")?.0.to_owned())
}

fn licences(manifest: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let folder = manifest.parent().ok_or("a manifest lies in a folder")?;
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if entry.file_type()?.is_file() && NAMES.iter().any(|known| name.starts_with(known)) {
            texts.push(fs::read_to_string(entry.path())?);
        }
    }
    Ok(texts)
}
