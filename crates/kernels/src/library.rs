//! Kernels that are ready to use, one to a file.

mod ahead;
mod block_sparse;
mod flash_attention;
mod gemm_multi;
mod gqa_decode;
mod panels;
mod qkv;
mod softmax_sum;
mod vector_add;

pub use block_sparse::block_sparse;
pub use flash_attention::flash_attention;
pub use gemm_multi::gemm_multi;
pub use gqa_decode::gqa_decode;
pub use qkv::qkv;
pub use vector_add::vector_add;
