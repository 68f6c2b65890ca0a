//! Sweeps in YAML: a bench, a grid, and the file of records.

use cubeyard_yaml::{Document, Field, InputError};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Sweep as specified by its file. Missing keys are omitted when it is serialized.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepFile {
    /// Name of a bench, or `FILE.py::NAME`.
    pub bench: String,
    /// Configurations to run.
    pub grid: SweepGrid,
    /// Path of the file of records, JSON lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
    /// Topology file of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<String>,
    /// SIPs to use, as the argument `device` of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Whether values are computed and checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<bool>,
    /// Whether kernels run live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<bool>,
}

/// Configurations of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SweepGrid {
    /// Values by key, in file order; every combination is run.
    Product(Vec<(String, Vec<Value>)>),
    /// Configurations listed individually.
    Listed(Vec<Map<String, Value>>),
}

impl SweepFile {
    /// Parses the text of a file; `name` is its name in error messages.
    pub fn read(name: &str, text: &str) -> Result<Self, InputError> {
        let document = Document::overlaid("a sweep", "{}", name, text)?;
        let mut map = document.root().map()?;
        let bench = map.required("bench")?.text("a bench: a name, or FILE.py::NAME")?.to_owned();
        let grid = SweepGrid::read(&map.required("grid")?)?;
        let mut text = |key: &'static str| {
            let text = |field: Field<'_>| field.text("a text").map(str::to_owned);
            map.optional(key).map(text).transpose()
        };
        let (out, topology, device) = (text("out")?, text("topology")?, text("device")?);
        let mut flag = |key: &'static str| map.optional(key).map(|field| field.flag()).transpose();
        let (data, live) = (flag("data")?, flag("live")?);
        map.finish()?;
        Ok(Self { bench, grid, out, topology, device, data, live })
    }
}

impl SweepGrid {
    /// Reads a map of lists, which stands for their product, or a list of maps.
    fn read(field: &Field<'_>) -> Result<Self, InputError> {
        if let Ok(mut map) = field.map() {
            let mut axes = Vec::new();
            for (key, field) in map.each() {
                axes.push((key.to_owned(), list(&field)?));
            }
            return Ok(Self::Product(axes));
        }
        let points = field.list("configurations, or keys with lists of values")?;
        points.iter().map(point).collect::<Result<_, _>>().map(Self::Listed)
    }
}

fn point(field: &Field<'_>) -> Result<Map<String, Value>, InputError> {
    let mut point = Map::new();
    for (key, field) in field.map()?.each() {
        point.insert(key.to_owned(), scalar(&field)?);
    }
    Ok(point)
}

fn list(field: &Field<'_>) -> Result<Vec<Value>, InputError> {
    let values = field.list("values")?;
    if values.is_empty() {
        return Err(field.unexpected("at least one value"));
    }
    values.iter().map(scalar).collect()
}

fn scalar(field: &Field<'_>) -> Result<Value, InputError> {
    let text = field.text("a number or a text")?;
    let whole = text.parse::<i64>().ok().map(|number| json!(number));
    let number = || text.parse::<f64>().ok().filter(|number| number.is_finite());
    Ok(match text {
        "true" | "false" => json!(text == "true"),
        _ => whole.or_else(|| number().map(|it| json!(it))).unwrap_or_else(|| json!(text)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Value, String> {
        let file = SweepFile::read("grid.yaml", text).map_err(|error| error.to_string())?;
        Ok(serde_json::to_value(file).unwrap())
    }

    #[test]
    fn a_product_keeps_the_order_of_its_keys() {
        let file = read("bench: gemm\ngrid:\n  n: [2, x, 0.5]\n  m: [true]\nout: a.jsonl\n");
        let grid = json!({ "product": [["n", [2, "x", 0.5]], ["m", [true]]] });
        assert_eq!(file.unwrap(), json!({ "bench": "gemm", "grid": grid, "out": "a.jsonl" }));
    }

    #[test]
    fn configurations_are_listed_one_by_one() {
        let file = read("bench: b.py::b\ngrid: [{m: 1}, {m: 2, n: -3}]\ndata: true\ndevice: 1\n");
        let grid = json!({ "listed": [{ "m": 1 }, { "m": 2, "n": -3 }] });
        let expected = json!({ "bench": "b.py::b", "grid": grid, "device": "1", "data": true });
        assert_eq!(file.unwrap(), expected);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, expected) in [
            ("grid: {n: [1]}\n", "bench"),
            (
                "bench: b\ngrid:\n  m: 5\n",
                "grid.yaml:3: grid.m: expected a list of values, found 5",
            ),
            ("bench: b\ngrid:\n  m: []\n", "grid.yaml:3: grid.m: expected at least one value"),
            (
                "bench: b\ngrid: {m: [1]}\nuot: x\n",
                "grid.yaml:3: expected a known key, found `uot`",
            ),
            ("bench: [\n", "grid.yaml:"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
