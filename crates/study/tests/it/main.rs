//! Studies as a whole.

mod records;
