//! Studies: a grid of inputs, a record of each point, and the file that keeps the records.
//!
//! A [`Grid`] is the product of lists of values by key. The caller decides how its points are run: on the threads of
//! [`on_threads`], or in processes and clusters of another language. [`Records`] keeps a
//! [`Record`](cubeyard_bench::record::Record) of each point, by the [key](cubeyard_bench::record::Record::key) of its
//! inputs. It writes each record to a file at once, so that an interrupted study can be resumed. A [`SweepFile`]
//! specifies all of this in YAML. [`levers`] ranks the resources of a machine by the time that a faster one saves.
//! [`designs`] finds the designs of a grid that are worth their cost. [`collectives`] measures collectives over sizes and algorithms.
//!
//! ```
//! use cubeyard_bench::record::Record;
//! use cubeyard_study::{Grid, Records, on_threads};
//! use serde_json::json;
//!
//! let grid = Grid::new(vec![("m".to_owned(), vec![1, 2]), ("n".to_owned(), vec![5])])?;
//! let points: Vec<_> = grid.points().collect();
//! assert_eq!(points, [[("m", &1), ("n", &5)], [("m", &2), ("n", &5)]]);
//!
//! let product = |point: &Vec<(&str, &i32)>| {
//!     let inputs = point.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
//!     let figures = [("value".to_owned(), json!(point[0].1 * point[1].1))].into_iter().collect();
//!     Record { figures: Some(figures), ..Record::named("product".to_owned(), String::new(), inputs) }
//! };
//! let mut records = Records::open(None, true)?;
//! for record in on_threads(&points, 2, product, |_, _| ()) {
//!     records.add(&record)?;
//! }
//! let first = product(&points[0]);
//! assert!(records.has(&first.key()));
//! assert_eq!(records.line(&first.key()), Some(first.line().as_str()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod collectives;
pub mod designs;
mod grid;
pub mod levers;
mod records;
mod sweep_file;
mod threads;

pub use grid::{Grid, GridError};
pub use records::{Records, RecordsError};
pub use sweep_file::{SweepFile, SweepGrid};
pub use threads::on_threads;
