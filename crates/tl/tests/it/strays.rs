//! Virtual addresses that a PE does not map.

use cubeyard_memory::address::SipId;
use cubeyard_memory::virtual_space::VirtualSpec;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Placement;
use cubeyard_runtime::{Addressing, Context, ContextConfig, Tensor};
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::launch::{Launcher, Mode};

use crate::lab::{kernel, one, run, tensors};

/// Returns a kernel that copies the first argument to the second.
fn copies() -> Kernel {
    kernel("copies", |tl, args| {
        let (from, to) = (args.tensor(0).whole(), args.tensor(1).whole());
        tl.store(&to, &tl.load(&from));
    })
}

/// Creates a tensor on the other SIP, which no PE of the first maps; a tensor of the first SIP whose physical address
/// equals the other's virtual address, if virtual addresses begin at 4 GiB; and an output.
fn tensors_of(context: &Context) -> [Tensor; 4] {
    let there = Placement::one(SipId::new(1).unwrap());
    let elsewhere = context.full(&[64], DType::F32, 1.0).unwrap().to(&there).unwrap();
    let below = context.empty(&[1 << 32], DType::I8).unwrap().to(&one()).unwrap();
    let victim = context.full(&[64], DType::F32, 666.0).unwrap().to(&one()).unwrap();
    let output = context.full(&[64], DType::F32, 0.0).unwrap().to(&one()).unwrap();
    [elsewhere, below, victim, output]
}

/// The first virtual address was 4 GiB, which is also a physical one. A kernel whose argument is mapped on another SIP
/// read the tensor that happened to be there, and nothing was reported.
#[test]
fn an_argument_that_is_mapped_elsewhere_is_refused_with_kernel_and_line() {
    for mode in [Mode::Recorded, Mode::Live] {
        let context = Context::new(ContextConfig { data: true, ..ContextConfig::default() });
        let [elsewhere, _below, _victim, output] = tensors_of(&context);
        let launcher = Launcher::with_mode(&context, mode);
        let ran = run(&launcher, &copies(), tensors(&[&elsewhere, &output]));
        let error = ran.map(|_| output.read::<f32>().unwrap()).unwrap_err().to_string();
        let begin = "sip0.cube0.pe0.pe_dma: load f32[64] at strays.rs:";
        assert!(error.starts_with(begin), "{error}");
        assert!(error.contains("of copies: 0x8000000000000 is not mapped"), "{error}");
        // The context stays usable: on the SIP where the tensor is mapped, it can be read.
        assert_eq!(output.read::<f32>().unwrap(), [0.0; 64]);
        assert_eq!(elsewhere.read::<f32>().unwrap(), [1.0; 64]);
    }
}

/// With the range of ADR-0048 restored, the fall-back of ADR-0011 is taken, and reported as a finding.
#[test]
fn an_access_that_falls_through_to_another_tensor_is_found_with_kernel_and_line() {
    for (mode, data) in [(Mode::Recorded, true), (Mode::Recorded, false), (Mode::Live, true)] {
        let virtual_base = VirtualSpec::CONTEXT_BASE;
        let context =
            Context::new(ContextConfig { data, virtual_base, ..ContextConfig::default() });
        let [elsewhere, _below, victim, output] = tensors_of(&context);
        assert_eq!(
            elsewhere.va_base().unwrap().unwrap().to_bits(),
            victim.shards().unwrap()[0].address.to_bits()
        );
        let launcher = Launcher::with_mode(&context, mode);
        run(&launcher, &copies(), tensors(&[&elsewhere, &output])).unwrap();
        if data {
            assert_eq!(output.read::<f32>().unwrap(), [666.0; 64]);
        }
        let findings = launcher.findings();
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(finding.kernel, "copies");
        assert!(finding.place.starts_with("strays.rs:"), "{finding}");
        assert_eq!(
            finding.what,
            "load f32[64] reads bytes 0x100000000 to 0x1000000ff, which are not mapped here and were taken for \
             physical addresses: no argument of the launch is there"
        );
        // An access to a mapped address is not a finding.
        run(&launcher, &copies(), tensors(&[&victim, &output])).unwrap();
        assert_eq!(launcher.findings().len(), 1);
    }
}

/// With physical addresses, all accesses fall through; accesses to tensors other than the arguments are found.
#[test]
fn with_physical_addresses_what_is_of_no_argument_is_found() {
    let addressing = Addressing::Physical;
    let context =
        Context::new(ContextConfig { data: true, addressing, ..ContextConfig::default() });
    let place = |value: f64| context.full(&[64], DType::F32, value).unwrap().to(&one()).unwrap();
    let [x, y, z] = [1.0, 2.0, 3.0].map(place);
    let launcher = Launcher::new(&context);
    run(&launcher, &copies(), tensors(&[&x, &y])).unwrap();
    assert_eq!(y.read::<f32>().unwrap(), [1.0; 64]);
    assert_eq!(launcher.findings(), []);
    let address = z.shards().unwrap()[0].address.to_bits();
    let reads = Kernel::new("reads", move |tl, args| {
        Box::pin(async move {
            let tile = tl.load(&tl.ref_(address, &[64], DType::F32));
            tl.store(&args.tensor(0).whole(), &tile);
        })
    });
    run(&launcher, &reads, tensors(&[&y])).unwrap();
    let findings = launcher.findings();
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert!(finding.to_string().starts_with("reads on sip0.cube0.pe0, strays.rs:"), "{finding}");
    assert!(finding.what.contains("no argument of the launch is there"), "{finding}");
}

/// The page size of the MMU and the first address must be consistent.
#[test]
fn a_virtual_range_that_begins_within_a_page_is_refused() {
    let virtual_base = cubeyard_memory::virtual_space::DeviceVa::new(0x1000_0000_0800);
    let context = Context::new(ContextConfig { virtual_base, ..ContextConfig::default() });
    let error = context.empty(&[64], DType::F32).unwrap().to(&one()).unwrap_err().to_string();
    assert_eq!(error, "va 0x100000000800 is not a multiple of the page of 4096 B (4.00 KiB)");
    assert!(context.is_pristine());
}
