//! Parses grids given as options: `KEY=A,B`.

use anyhow::{Result, anyhow, bail};
use cubeyard_study::{Grid, GridError};

/// Maximum number of points of a grid.
const MOST: usize = 10_000;

/// Reads keys with their values, as `KEY=A,B`.
pub(super) fn read(texts: &[String]) -> Result<Grid<String>> {
    let axes = texts.iter().map(|text| axis(text).ok_or_else(|| malformed(text)));
    match Grid::new(axes.collect::<Result<_>>()?) {
        Ok(grid) if grid.len() <= MOST => Ok(grid),
        Ok(_) | Err(GridError::TooLarge) => {
            bail!("--vary: expected at most {MOST} points, found more\n  help: name fewer values")
        }
        Err(GridError::Repeated(key)) => bail!(
            "--vary {key}: expected each key once\n  help: name all its values at once, as in {key}=A,B"
        ),
        Err(error) => bail!("--vary: {error}"),
    }
}

/// Parses a key with its values; `None` if the text has another form.
fn axis(text: &str) -> Option<(String, Vec<String>)> {
    let (key, values) = text.split_once('=')?;
    let (key, values) = (key.trim(), split(values)?);
    let is_key = !key.is_empty() && !key.starts_with('-') && !key.contains(char::is_whitespace);
    (is_key && !values.iter().any(String::is_empty)).then(|| (key.to_owned(), values))
}

fn malformed(text: &str) -> anyhow::Error {
    anyhow!(
        "--vary {text}: expected KEY=A,B,..., such as m=256,512\n  help: values with commas are written in brackets"
    )
}

/// Splits values at commas outside brackets; `None` if brackets do not match.
fn split(text: &str) -> Option<Vec<String>> {
    let (mut values, mut value, mut open) = (Vec::new(), String::new(), Vec::new());
    for character in text.chars() {
        match character {
            '[' => open.push(']'),
            '{' => open.push('}'),
            ']' | '}' if open.pop() != Some(character) => return None,
            ',' if open.is_empty() => {
                values.push(std::mem::take(&mut value).trim().to_owned());
                continue;
            }
            _ => {}
        }
        value.push(character);
    }
    values.push(value.trim().to_owned());
    open.is_empty().then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(texts: &[&str]) -> Result<Grid<String>> {
        read(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    fn points(texts: &[&str]) -> Vec<String> {
        let text = |(key, value): (&str, &String)| format!("{key}={value}");
        let point = |point: Vec<_>| point.into_iter().map(text).collect::<Vec<_>>().join(" ");
        grid(texts).unwrap().points().map(point).collect()
    }

    #[test]
    fn keys_and_values_are_read_without_the_spaces_around_them() {
        let read = points(&["m=1,2", " hbm.channels=4, 8"]);
        let expected = ["m=1 hbm.channels=4", "m=1 hbm.channels=8", "m=2 hbm.channels=4"];
        assert_eq!(read[..3], expected);
    }

    #[test]
    fn values_with_commas_are_in_brackets() {
        let read = points(&["io.chiplets=[N],[N, S]", "x.y={a: 1, b: [2, 3]}"]);
        let expected =
            ["[N]", "[N, S]"].map(|it| format!("io.chiplets={it} x.y={{a: 1, b: [2, 3]}}"));
        assert_eq!(read, expected);
    }

    #[test]
    fn other_forms_are_refused() {
        for text in ["", "m", "m=", "m=1,,2", "=1", "m=[1", "m=1]", "m=[1}", "--m=1", "a b=1"] {
            assert!(grid(&[text]).is_err(), "{text}");
        }
        assert!(grid(&["m=1", "m=2"]).unwrap_err().to_string().contains("each key once"));
        let many = format!("m={}", vec!["1"; 101].join(","));
        let error = grid(&[&many, &many.replace('m', "n")]).unwrap_err().to_string();
        assert!(error.contains("at most 10000 points"), "{error}");
    }
}
