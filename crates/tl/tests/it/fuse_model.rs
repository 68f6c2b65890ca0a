//! Fused chains in random kernels, against a slow model of a PE. The model is written from the costs stated in
//! `docs/kernel-costs.md`, without the code that computes them.

mod program;
mod reference;

use std::rc::Rc;

use cubeyard_runtime::Tensor;
use cubeyard_runtime::dtype::DType;
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::launch::Launcher;
use cubeyard_tl::{Lazy, Tile, Tl};
use proptest::prelude::*;

use crate::lab::{context, one, run, tensors};
use program::{ChainStep, From, Function, Ordered, Program, Shape};
use reference::Costs;

fn shape(of: Shape) -> Vec<u64> {
    of.to_vec()
}

/// Returns the result of an operation on expressions.
fn lazily(step: &ChainStep, tiles: &[Tile], done: &[Lazy]) -> Lazy {
    let lazy = |of: &From| match *of {
        From::Tile(tile) => tiles[tile].lazy(),
        From::Step(step) => done[step].clone(),
        From::Number(_) => unreachable!("the first operand is no number"),
    };
    let x = lazy(&step.operands[0]);
    let second =
        |act: &dyn Fn(&Lazy, &Lazy) -> Lazy, number: &dyn Fn(&Lazy, f64) -> Lazy| match step
            .operands[1]
        {
            From::Number(of) => number(&x, of),
            ref other => act(&x, &lazy(other)),
        };
    match step.function {
        Function::Neg => -&x,
        Function::Relu => x.relu(),
        Function::Exp => x.exp(),
        Function::Rsqrt => x.rsqrt(),
        Function::Add => second(&|x, y| x + y, &|x, y| x + y),
        Function::Maximum => second(&|x, y| x.maximum(y), &|x, y| x.maximum(y)),
        Function::Div => second(&|x, y| x / y, &|x, y| x / y),
        Function::Fma => second(&|x, y| x.fma(y, 0.5), &|x, y| x.fma(y, 0.5)),
        Function::Below => second(&|x, y| x.lt(y).select(x, y), &|x, y| x.lt(y).select(x, y)),
        Function::Cast(to) => x.cast(to),
        Function::Sum(axis) => x.sum_keep(axis),
        Function::Max(axis) => x.max_keep(axis),
    }
}

fn evaluate(tl: &Tl, steps: &[ChainStep], outputs: &[usize], tiles: &[Tile]) -> Vec<Tile> {
    let mut done: Vec<Lazy> = Vec::new();
    for step in steps {
        done.push(lazily(step, tiles, &done));
    }
    match *outputs {
        [a] => tl.eval_all([&done[a]]).into(),
        [a, b] => tl.eval_all([&done[a], &done[b]]).into(),
        [a, b, c] => tl.eval_all([&done[a], &done[b], &done[c]]).into(),
        _ => unreachable!("one to three results"),
    }
}

/// Runs the commands. Every tile is held to the end, so that no TCM range is reused.
async fn perform(tl: Tl, args: Args, program: Rc<Program>) {
    let (mut tiles, mut held): (Vec<Tile>, Vec<Tile>) = Default::default();
    for command in &program.commands {
        match command {
            Ordered::Load(input) => tiles.push(tl.load(&args.tensor(*input).local())),
            Ordered::Add(a, b) => tiles.push(tl.add(&tiles[*a], &tiles[*b])),
            Ordered::Exp(a) => tiles.push(tl.exp(&tiles[*a])),
            Ordered::RowSums(a) => {
                let ones = tl.full(&[tiles[*a].dim(1), 1], 1.0, tiles[*a].ty().dtype);
                tiles.push(tl.dot(&tiles[*a], &ones));
                held.push(ones);
            }
            Ordered::Full(ty) => tiles.push(tl.full(&shape(ty.shape), 0.5, ty.dtype)),
            Ordered::Chain { steps, outputs } => {
                let made = evaluate(&tl, steps, outputs, &tiles);
                tiles.extend(made);
            }
            Ordered::Wait(tile) => tl.wait_for(&tiles[*tile]).await,
            Ordered::Fence => tl.fence(),
        }
    }
}

/// Returns the time of a kernel on one PE, and of each of its loads alone.
fn measured(costs: &Costs, program: &Rc<Program>) -> (u64, Vec<u64>) {
    let context = context(&costs.topology(), false);
    let place =
        |ty: &program::Ty| context.empty(&shape(ty.shape), ty.dtype).unwrap().to(&one()).unwrap();
    let inputs: Vec<Tensor> = program.inputs.iter().map(place).collect();
    let launcher = Launcher::new(&context);
    let all: Vec<_> = inputs.iter().collect();
    let time = |commands: Vec<Ordered>| {
        let program = Rc::new(Program { commands, inputs: program.inputs.clone() });
        let kernel =
            Kernel::new("random", move |tl, args| Box::pin(perform(tl, args, Rc::clone(&program))));
        run(&launcher, &kernel, tensors(&all)).unwrap().max().ps()
    };
    let before = costs.dispatch + costs.overhead;
    let alone = (0..inputs.len()).map(|input| time(vec![Ordered::Load(input)]) - before).collect();
    (time(program.commands.clone()), alone)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn random_kernels_with_chains_take_as_long_as_the_page_says(seed in any::<u64>()) {
        let (costs, program) = program::random(seed);
        let (time, alone) = measured(&costs, &program);
        prop_assert_eq!(time, reference::time(&costs, &program, &alone), "{:?} {:?}", costs, program);
    }
}

/// The random kernels cover all cases of interest.
#[test]
fn random_kernels_have_chains_of_every_kind() {
    let (mut counts, mut products) = ([0_u32; 5], [0_u32; 2]);
    for seed in 0..200 {
        let (costs, program) = program::random(seed);
        for command in &program.commands {
            if let Ordered::RowSums(_) = command {
                products[usize::from(costs.is_separate)] += 1;
            }
            let Ordered::Chain { steps, outputs } = command else { continue };
            let has = |is: fn(&ChainStep) -> bool| steps.iter().any(is);
            let kinds = [
                outputs.len() > 1,
                has(|step| matches!(step.function, Function::Sum(_) | Function::Max(_))),
                has(|step| step.spreads),
                has(|step| step.function == Function::Cast(DType::F16)),
                has(|step| step.ty.shape != step.first),
            ];
            counts.iter_mut().zip(kinds).for_each(|(count, is)| *count += u32::from(is));
        }
    }
    assert!(counts.iter().all(|&count| count > 50), "{counts:?}");
    assert!(products.iter().all(|&count| count > 50), "of one engine and of two: {products:?}");
}
