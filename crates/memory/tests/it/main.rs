//! Everything that needs more than one module of the library.

mod index;
