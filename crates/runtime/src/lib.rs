//! Is what a host program talks to.
