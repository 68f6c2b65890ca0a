//! The examples quoted in the documentation: they run and print the quoted output.

use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Context, ContextConfig};
use cubeyard_sim::Span;

#[path = "../../examples/deploy.rs"]
#[expect(dead_code, reason = "its `main` is for those who run it alone")]
mod deploy;

#[test]
fn the_example_does_what_docs_runtime_md_says() {
    let mut text = Vec::new();
    deploy::run(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("512x64 f32, 128.00 KiB in 128 shards"), "{text}");
    assert_eq!(text.matches(": the last rows\n").count(), 2, "{text}");
    assert!(text.contains("128 of 128 PEs whole, 0 mappings"), "{text}");
    assert!(text.ends_with("every allocator is as in the beginning\n"), "{text}");
    let page = include_str!("../../../../docs/runtime.md");
    assert!(page.contains(&format!("```text\n{text}```")), "the page has something else:\n{text}");
}

/// The rows of a tensor over a SIP are read back, and its memory is freed.
#[test]
fn a_tensor_over_a_sip_comes_back() -> Result<(), Box<dyn std::error::Error>> {
    let context = Context::new(ContextConfig { data: true, ..ContextConfig::default() });
    let over_a_sip = Placement { cube: Split::RowWise, pe: Split::RowWise, ..Placement::default() };
    let values: Vec<f32> = (0..1024).map(|value| value as f32).collect();
    let tensor = context.from_slice(&[256, 4], &values)?.to(&over_a_sip)?; // two rows in each of 128 PEs
    assert_eq!(tensor.read::<f32>()?, values);
    assert!(tensor.mapping_latency()? > Span::ZERO);
    drop(tensor); // unmaps through the fabric, and frees addresses and memory
    assert!(context.is_pristine());
    Ok(())
}
