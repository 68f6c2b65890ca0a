//! The `cubeyard` command. See [`cubeyard_cli`].

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: cubeyard_cli::Limited = cubeyard_cli::Limited;

fn main() -> ExitCode {
    cubeyard_cli::run(std::env::args_os()).into()
}
