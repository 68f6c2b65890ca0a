//! What kernels compute: arrays of numbers, as the engines of a PE would leave them.
