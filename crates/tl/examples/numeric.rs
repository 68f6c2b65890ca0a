//! Computes cases for comparison with NumPy: JSON lines in, JSON lines out.
//!
//! A case names a function, its operation if there are several, and its operands with their bytes in hexadecimal. The
//! answer is the result in the same form, or the error. `infer` is called as well, and the program stops if the two
//! disagree.

use std::error::Error;
use std::io::{BufRead, Write};

use cubeyard_runtime::dtype::DType;
use cubeyard_tl::numeric::{
    Array, Binary, NumericError, Reduce, Scan, Ternary, TileType, Unary, binary, broadcast_to,
    cast, dot, infer, merge, paste, permute, reduce, reshape, scan, slice, softmax, ternary,
    transpose, unary,
};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Case {
    function: String,
    #[serde(default)]
    operation: String,
    operands: Vec<Tile>,
    #[serde(default)]
    axis: usize,
    #[serde(default)]
    keep: bool,
    #[serde(default)]
    axes: Vec<usize>,
    #[serde(default)]
    start: Vec<u64>,
    #[serde(default)]
    shape: Vec<u64>,
    #[serde(default)]
    dtype: String,
}

#[derive(Deserialize, Serialize)]
struct Tile {
    dtype: String,
    shape: Vec<u64>,
    hex: String,
}

impl Tile {
    fn array(&self) -> Result<Array, Box<dyn Error>> {
        let ty = TileType { dtype: self.dtype.parse()?, shape: self.shape.clone().into() };
        let bytes = (0..self.hex.len() / 2)
            .map(|index| u8::from_str_radix(&self.hex[2 * index..2 * index + 2], 16));
        Ok(Array::from_bytes(&ty, &bytes.collect::<Result<Vec<_>, _>>()?)?)
    }

    fn of(array: &Array) -> Self {
        let digit = |nibble: u8| char::from_digit(nibble.into(), 16).expect("it has 4 bits");
        let bytes = array.to_bytes();
        let hex = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(digit).collect();
        let TileType { dtype, shape } = array.ty().clone();
        Self { dtype: dtype.to_string(), shape: shape.into_vec(), hex }
    }
}

/// Computed result, and inferred type.
type Both = (Result<Array, NumericError>, Result<TileType, NumericError>);

impl Case {
    fn compute(&self) -> Result<Both, Box<dyn Error>> {
        let operands = self.operands.iter().map(Tile::array).collect::<Result<Vec<_>, _>>()?;
        match operands.as_slice() {
            [a] => self.of_one(a),
            [a, b] => self.of_two(a, b),
            [a, b, c] => self.of_three(a, b, c),
            _ => Err("one, two or three operands".into()),
        }
    }

    fn of_one(&self, a: &Array) -> Result<Both, Box<dyn Error>> {
        let (axis, shape, ty) = (self.axis, &self.shape, a.ty());
        Ok(match self.function.as_str() {
            "unary" => {
                let operation = named(Unary::named, &self.operation)?;
                (unary(operation, a), infer::unary(operation, ty))
            }
            "reduce" => {
                let operation = named(Reduce::named, &self.operation)?;
                let inferred = infer::reduce(operation, ty, axis, self.keep);
                (reduce(operation, a, axis, self.keep), inferred)
            }
            "scan" => {
                let operation = named(Scan::named, &self.operation)?;
                (scan(operation, a, axis), infer::scan(operation, ty, axis))
            }
            "cast" => {
                let dtype: DType = self.dtype.parse()?;
                (cast(a, dtype), infer::cast(ty, dtype))
            }
            "softmax" => (softmax(a, axis), infer::softmax(ty, axis)),
            "transpose" => (transpose(a), infer::transpose(ty)),
            "permute" => (permute(a, &self.axes), infer::permute(ty, &self.axes)),
            "reshape" => (reshape(a, shape), infer::reshape(ty, shape)),
            "broadcast_to" => (broadcast_to(a, shape), infer::broadcast_to(ty, shape)),
            "slice" => (slice(a, &self.start, shape), infer::slice(ty, &self.start, shape)),
            other => return Err(format!("no function {other} of one operand").into()),
        })
    }

    fn of_two(&self, a: &Array, b: &Array) -> Result<Both, Box<dyn Error>> {
        Ok(match self.function.as_str() {
            "binary" => {
                let operation = named(Binary::named, &self.operation)?;
                (binary(operation, a, b), infer::binary(operation, a.ty(), b.ty()))
            }
            "dot" => (dot(a, b, None), infer::dot(a.ty(), b.ty(), None)),
            "paste" => {
                let mut whole = a.clone();
                let inferred = infer::paste(a.ty(), &self.start, b.ty());
                (paste(&mut whole, &self.start, b).map(|()| whole), inferred)
            }
            other => return Err(format!("no function {other} of two operands").into()),
        })
    }

    fn of_three(&self, a: &Array, b: &Array, c: &Array) -> Result<Both, Box<dyn Error>> {
        let kinds = (a.ty(), b.ty(), c.ty());
        Ok(match self.function.as_str() {
            "ternary" => {
                let operation = named(Ternary::named, &self.operation)?;
                (ternary(operation, a, b, c), infer::ternary(operation, kinds.0, kinds.1, kinds.2))
            }
            "dot" => (dot(a, b, Some(c)), infer::dot(kinds.0, kinds.1, Some(kinds.2))),
            "merge" => (merge(a, b, c), infer::merge(kinds.0, kinds.1, kinds.2)),
            other => return Err(format!("no function {other} of three operands").into()),
        })
    }
}

fn named<T>(find: fn(&str) -> Option<T>, name: &str) -> Result<T, String> {
    find(name).ok_or_else(|| format!("no operation {name}"))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let case: Case = serde_json::from_str(&line)?;
        let (computed, inferred) = case.compute()?;
        if computed.as_ref().map(Array::ty) != inferred.as_ref() {
            return Err(format!("computed {computed:?}, inferred {inferred:?}: {line}").into());
        }
        let answer = match computed {
            Ok(array) => serde_json::to_string(&Tile::of(&array))?,
            Err(error) => serde_json::json!({ "error": error.to_string() }).to_string(),
        };
        writeln!(output, "{answer}")?;
    }
    Ok(())
}
