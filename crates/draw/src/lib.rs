//! Charts and pages: axes, SVG, and one HTML shell for light, dark and narrow screens.
//!
//! Internal: programs use the crate `cubeyard`.
//!
//! A picture is drawn on a [`svg::Canvas`]: shapes and text in drawing order. A chart has a [`plot::Plot`], which draws
//! axes and labels; [`axis`] computes the ticks. A [`chart::Chart`] of lines is drawn as a picture, and as a figure of
//! a page, with zoom and values under the pointer. [`page()`] wraps markup in a page. Pictures and pages are
//! self-contained: no external script, font or style sheet. Text is escaped when it is added.
//!
//! ```
//! use cubeyard_draw::axis::ticks;
//! use cubeyard_draw::plot::Plot;
//! use cubeyard_draw::svg::{Area, Canvas, colour};
//!
//! let area = Area { x: 60.0, y: 40.0, width: 500.0, height: 200.0 };
//! let plot = Plot { area, right: 640.0 };
//! let y = |value: f64| area.bottom() - area.height * value / 7.0;
//! let up: Vec<_> = ticks(7.0, 1.0, 8).into_iter().map(|(value, text)| (y(value), text)).collect();
//! let mut canvas = Canvas::default();
//! plot.axes(&mut canvas, &[], &up, ["time", "MiB"]);
//! canvas.path("M60 240L560 80", &format!("fill=\"none\" stroke=\"{}\"", colour(0)));
//! let picture = canvas.finish("Memory < 7 MiB", 640.0, 300.0);
//! assert!(picture.contains("<title>Memory &lt; 7 MiB</title>"));
//!
//! let page = cubeyard_draw::page("Memory", "", &picture, "");
//! assert!(page.starts_with("<!DOCTYPE html>"));
//! ```

pub mod activity;
pub mod axis;
pub mod chart;
pub mod flame;
pub mod pack;
mod page;
pub mod plot;
pub mod svg;
pub mod xml;

pub use self::page::{
    captioned, cell, copyable, header, number, page, plain_table, remark, section, table, tile,
    tiles,
};
