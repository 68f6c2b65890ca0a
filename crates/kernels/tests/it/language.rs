//! What the language refuses, and where.
