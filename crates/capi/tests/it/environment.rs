//! The environment, as `cubeyard_config_from_env` reads it.

use std::process::Output;

use expect_test::expect;

use super::{clean, compiled, file, stdout};

/// Environment variables that the library reads.
pub(crate) const VARIABLES: [&str; 5] = [
    "CUBEYARD_ALLOC_CONF",
    "CUBEYARD_ALLOC_DEBUG",
    "FLEX_DEVICE",
    "TORCH_SPYRE_ALLOC_DEBUG",
    "TORCH_SPYRE_DEBUG",
];

/// Runs a program that creates an allocator from the environment and allocates once.
fn with(name: &str, variables: &[(&str, &str)]) -> Output {
    let program = compiled(&file("tests/it/c/environment.c"), name);
    let mut command = clean(&program);
    command.envs(variables.iter().copied()).output().expect("it was compiled just now")
}

#[test]
fn nothing_set_is_the_default_and_quiet() {
    let output = with("env-default", &[]);
    expect![[r#"
        PF, region 0x400000000, 12884901888 bytes reserved
    "#]]
    .assert_eq(&stdout(&output));
    assert_eq!(output.stderr, b"");
}

#[test]
fn flex_device_and_the_configuration_are_read() {
    let variables = [("FLEX_DEVICE", "VF"), ("CUBEYARD_ALLOC_CONF", "fallback_sizes:[1MiB]")];
    expect![[r#"
        VF, region 0x0, 1048576 bytes reserved
    "#]]
    .assert_eq(&stdout(&with("env-set", &variables)));
}

#[test]
fn a_wrong_value_is_named_with_what_was_expected() {
    expect![[r#"
        FLEX_DEVICE: `MOCK`: expected PF or VF
    "#]]
    .assert_eq(&stdout(&with("env-device", &[("FLEX_DEVICE", "MOCK")])));
    expect![[r#"
        CUBEYARD_ALLOC_CONF: `max_regions:x`: expected a number from 1 to 1024
    "#]]
    .assert_eq(&stdout(&with("env-conf", &[("CUBEYARD_ALLOC_CONF", "max_regions:x")])));
}

#[test]
fn each_debug_variable_shows_every_step() {
    for variable in ["CUBEYARD_ALLOC_DEBUG", "TORCH_SPYRE_ALLOC_DEBUG", "TORCH_SPYRE_DEBUG"] {
        let log = String::from_utf8(with(variable, &[(variable, "1")]).stderr).expect("text");
        for step in ["region acquired", "block assigned", "block freed"] {
            assert!(log.contains(step), "{variable}: no `{step}` in\n{log}");
        }
        assert_eq!(with(variable, &[(variable, "0")]).stderr, b"", "0 is off");
    }
}
