//! The command with an example and a page at the end of each subcommand's help.

use clap::CommandFactory as _;

use crate::Cli;

/// Subcommands, each with an example and its page in the documentation.
const EXAMPLES: [(&str, &str, &str); 15] = [
    ("ccl", "cubeyard ccl --sizes 1K:1M --sips 4", "collectives.md"),
    (
        "compare",
        "cubeyard compare --with hbm.channel_bandwidth_gbs=64 -- run gqa-decode",
        "compare.md",
    ),
    (
        "completions",
        "cubeyard completions bash > ~/.local/share/bash-completion/completions/cubeyard",
        "README.md",
    ),
    ("list", "cubeyard list", "benches.md"),
    ("man", "cubeyard man > cubeyard.1", "README.md"),
    ("model", "cubeyard model --llm llama-70b --phase decode --report model.html", "model.md"),
    (
        "placement",
        "cubeyard placement --shape 4096x4096 --cube row_wise --pe column_wise",
        "placement.md",
    ),
    ("probe", "cubeyard probe --report probe.html", "machine.md"),
    ("replay", "cubeyard replay snapshot.pickle --report memory.html", "replay.md"),
    ("run", "cubeyard run flash-attention --explain --report run.html", "benches.md"),
    ("serve", "cubeyard serve --rate 40 --goodput ttft:500 --report service.html", "serving.md"),
    ("sweep", "cubeyard sweep grid.yaml --out records.jsonl", "compare.md"),
    ("topology", "cubeyard topology --topology machine.yaml --report machine.html", "topology.md"),
    ("validate", "cubeyard validate", "validation.md"),
    ("view", "cubeyard view results/", "pages.md"),
];

/// Returns the command that reads arguments and prints help.
pub(crate) fn command() -> clap::Command {
    EXAMPLES.iter().fold(Cli::command(), |all, (name, example, page)| {
        all.mut_subcommand(name, |command| {
            let before =
                command.get_after_help().map_or_else(String::new, |own| format!("{own}\n\n"));
            command.after_help(format!("{before}Example:\n  {example}\n\nRead more: docs/{page}"))
        })
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_command_has_an_example_that_is_right_and_a_page_that_exists() {
        let listed: Vec<_> = EXAMPLES.iter().map(|(name, ..)| *name).collect();
        let all: Vec<_> =
            Cli::command().get_subcommands().map(|each| each.get_name().to_owned()).collect();
        assert_eq!(listed, all);
        for (name, example, page) in EXAMPLES {
            let words = example.split(" > ").next().unwrap().split_whitespace();
            let found = command()
                .try_get_matches_from(words)
                .unwrap_or_else(|error| panic!("{example}: {error}"));
            assert_eq!(found.subcommand_name(), Some(name));
            let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
            assert!(docs.join(page).exists(), "{page}");
        }
    }

    #[test]
    fn the_help_of_replay_keeps_its_policies() {
        let mut all = command();
        let help = all.find_subcommand_mut("replay").unwrap().render_long_help().to_string();
        let (policies, example) = (help.find("best-fit").unwrap(), help.find("Example:").unwrap());
        assert!(policies < example);
    }
}
