//! Ready-made kernels, one per file.
//!
//! Internal: programs use the crate `cubeyard`.

mod ahead;
mod block_sparse;
mod copy;
mod flash_attention;
mod gemm;
mod gemm_multi;
mod gqa_decode;
mod layer_norm;
mod linear;
mod moe;
mod panels;
mod qkv;
mod rms_norm;
mod rows;
mod sequence_attention;
mod softmax;
mod softmax_sum;
mod vector_add;

pub use ahead::{Ahead, ahead};
pub use block_sparse::block_sparse;
pub use copy::{CopyFrom, copy};
pub use flash_attention::flash_attention;
pub use gemm::{OperandLayout, Staging, gemm, gemm_blocked};
pub use gemm_multi::gemm_multi;
pub use gqa_decode::gqa_decode;
pub use layer_norm::{EPSILON, layer_norm};
pub use linear::{Activation, linear};
pub use moe::{Choice, Routing, moe, moe_wires};
pub use qkv::qkv;
pub use rms_norm::{rms_factor, rms_norm, square_sums};
pub use sequence_attention::{sequence_attention, sequence_attention_wires};
pub use softmax::softmax;
pub use softmax_sum::{NEVER, SoftmaxSum};
pub use vector_add::vector_add;
