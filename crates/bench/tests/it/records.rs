//! Records of runs: the same for the same inputs, read back as they were written.

use cubeyard_bench::record::{FORMAT, Record, RecordError};
use cubeyard_bench::{
    Bench, BenchError, Lab, Needs, Outcome, Parameter, ParameterKind, Run, RunConfig, RunInputs,
    Value, Values, find, run,
};
use cubeyard_device::topology::Topology;
use cubeyard_tl::launch::Mode;

fn config(set: &[&str], topology: &str, data: bool) -> RunConfig {
    let topology = Topology::read("test.yaml", topology).unwrap();
    let set = set.iter().map(ToString::to_string).collect();
    RunConfig { topology, set, data, mode: Mode::Recorded, sips: Vec::new(), ops: false }
}

fn vector_add(set: &[&str], topology: &str) -> Run {
    run(&*find("vector-add").unwrap(), &config(set, topology, true)).unwrap()
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let record = Record::of(&vector_add(&["elements=4096", "block=256"], ""));
    let line = record.line();
    assert!(!line.contains('\n'));
    let read = Record::read(&line).unwrap();
    assert_eq!(read, record);
    assert_eq!(read.line(), line);
    let figures = read.figures.unwrap();
    assert_eq!(
        figures["kernel_ns"],
        vector_add(&["elements=4096", "block=256"], "").report.kernel.ns()
    );
    assert_eq!(figures["check"]["passed"], true);
}

#[test]
fn the_key_follows_inputs_and_machine_and_is_known_before_the_run() {
    let set = ["elements=4096", "block=256"];
    let one = Record::of(&vector_add(&set, ""));
    let bench = find("vector-add").unwrap();
    let foreseen = Record::new(&RunInputs::new(&*bench, &config(&set, "", true)).unwrap());
    assert_eq!(one.key(), foreseen.key());
    assert_eq!(one.key(), Record::of(&vector_add(&set, "sips: {count: 2}\n")).key());
    let others = [
        Record::of(&vector_add(&["elements=4096", "block=128"], "")),
        Record::of(&vector_add(&set, "hbm: {burst_bytes: 128}\n")),
        Record::of(&run(&*bench, &config(&set, "", false)).unwrap()),
        Record { version: "0.0.9".to_owned(), ..one.clone() },
        Record { source: Some("1".to_owned()), ..one.clone() },
    ];
    for other in others {
        assert_ne!(one.key(), other.key());
    }
}

#[test]
fn a_record_of_another_format_or_a_torn_line_is_refused() {
    let record = Record::of(&vector_add(&["elements=4096"], ""));
    let line = record.line();
    let newer =
        line.replace(&format!("\"format\":{FORMAT}"), &format!("\"format\":{}", FORMAT + 1));
    let error = Record::read(&newer).unwrap_err();
    assert!(matches!(error, RecordError::Format(2)), "{error}");
    assert!(error.to_string().starts_with("a record of format 2; this version reads format 1"));
    for torn in [&line[..line.len() / 2], "", "{}", "[1]", "7"] {
        assert!(matches!(Record::read(torn), Err(RecordError::Form(_))), "{torn}");
    }
}

/// A bench with every kind of parameter, which launches nothing.
struct Idle;

impl Bench for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn summary(&self) -> &'static str {
        "nothing"
    }

    fn parameters(&self) -> Vec<Parameter> {
        let owned = |text: &str| text.to_owned();
        vec![
            Parameter::new(owned("shift"), ParameterKind::Integer(-8, 8), Value::Integer(-1), ""),
            Parameter::new(owned("factor"), ParameterKind::Number, Value::Number(0.1), ""),
            Parameter::new(owned("label"), ParameterKind::Text, Value::Text(owned("a=b")), ""),
        ]
    }

    fn needs(&self, _: &Values, _: &Topology, _: u64) -> Needs {
        Needs::default()
    }

    fn run(&self, _: &Lab, values: &Values) -> Result<Outcome, BenchError> {
        assert_eq!(values.value("shift"), &Value::Integer(-8));
        Ok(Outcome::default())
    }
}

#[test]
fn a_bench_that_launches_nothing_is_refused_with_its_name() {
    let error = run(&Idle, &config(&["shift=-8"], "", false)).unwrap_err();
    let text = "idle has launched no kernel, so there is nothing to report";
    assert_eq!(error.to_string(), text);
}

#[test]
fn parameters_of_every_kind_are_read_and_kept() {
    let set = ["shift=-8", "factor=2.5e-3", "label=x=y"];
    let inputs = RunInputs::new(&Idle, &config(&set, "", false)).unwrap();
    let record = Record::new(&inputs);
    assert_eq!(record.inputs["shift"], -8);
    assert_eq!(record.inputs["factor"], 0.0025);
    assert_eq!(record.inputs["label"], "x=y");
    assert_eq!(Record::read(&record.line()).unwrap(), record);
    for (wrong, expected) in [
        ("shift=9", "idle: shift=9: expected a whole number from -8 to 8"),
        ("factor=inf", "idle: factor=inf: expected a number"),
        ("factor=", "idle: factor=: expected a number"),
    ] {
        let error = RunInputs::new(&Idle, &config(&[wrong], "", false)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}
