//! Numbers of attention with windows: which tokens a token attends to, also where the cache is a ring.
//!
//! Weights are chosen so that feature 1 of a token grows by the mean of feature 0 of the tokens that it attends to. Q is
//! 0, so all of them have equal weights; the norm is about 1, because features are 1 or −1; the feed-forward part is 0.

use std::rc::Rc;

use cubeyard_model::spec::Window;
use cubeyard_model::{Cut, Driver, Held, ModelSpec, Origin, Phase, StepPart, Tensors, Workload};
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::{Context, ContextConfig};
use cubeyard_tl::launch::Launcher;

use crate::{small, tiny, work};

/// Returns feature 0 of a token: 1 or −1, without a period.
fn sign(sequence: u64, token: u64) -> f64 {
    let bits = (sequence * 1009 + token + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    if bits >> 63 == 0 { 1.0 } else { -1.0 }
}

fn value(cut: &Cut, held: Held, Origin { matrix, row, column }: Origin) -> f64 {
    let first_value = (cut.spec.heads + cut.spec.kv_heads) * cut.spec.head_dim;
    let is_set = match held {
        Held::Tokens if column == 0 => return sign(row / cut.each, row % cut.each),
        Held::Tokens => true,
        // Feature 0 becomes all values, and the first of them is added to feature 1.
        Held::Qkv => row == 0 && column >= first_value,
        Held::Output => row == 0 && column == 1,
        // The cache of a decode step begins with the first token that the last one attends to.
        Held::Values => {
            return sign(matrix % cut.work.batch, cut.work.context - cut.seen() + row);
        }
        _ => false,
    };
    f64::from(u8::from(is_set))
}

/// Runs the layer at each position; returns the number added to feature 1 by each step, by its rows.
fn added(cut: &Rc<Cut>, positions: &[u64]) -> Vec<Vec<f64>> {
    let context =
        Context::new(ContextConfig { topology: small(), data: true, ..ContextConfig::default() });
    let sips: Vec<_> = small().sips().collect();
    let contents = |held, sip| {
        let value = |origin: Option<Origin>| origin.map_or(0.0, |it| value(cut, held, it));
        Some(cut.origins(held, sip).map(value).collect::<Vec<_>>())
    };
    let tensors = Tensors::new(&context, cut, &sips, Some(&contents)).unwrap();
    let launcher = Launcher::new(&context);
    let mut driver = Driver::new(&launcher, cut, &tensors).unwrap();
    let feature = || -> Vec<f64> {
        let all = tensors.sips[0].tokens.read::<f32>().unwrap().known().unwrap();
        // The first PE has features 0 to 127 of each token.
        all.chunks(128)
            .take(usize::try_from(cut.tokens()).unwrap())
            .map(|row| f64::from(row[1]))
            .collect()
    };
    let mut results = Vec::new();
    for &position in positions {
        let before = feature();
        StepPart::layer(cut).into_iter().for_each(|part| driver.order(part, 0, position).unwrap());
        driver.finish().unwrap();
        results.push(feature().iter().zip(before).map(|(after, before)| after - before).collect());
    }
    results
}

fn cut(window: Option<Window>, work: Workload) -> Rc<Cut> {
    let mut spec = ModelSpec { layers: 1, ..tiny() };
    spec.family.window = window;
    let work = Workload { dtype: DType::F32, weights: DType::F32, ..work };
    Rc::new(Cut::new(&spec, work, &small(), 2).unwrap())
}

const WINDOWS: [Option<Window>; 6] = [
    None,
    Some(Window::Sliding(1)),
    Some(Window::Sliding(7)),
    Some(Window::Sliding(24)),
    Some(Window::Chunked(8)),
    Some(Window::Chunked(15)),
];

fn mean(numbers: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = numbers.len() as f64;
    numbers.sum::<f64>() / count
}

/// Two steps of 20 tokens of one sequence on four PEs, and of three sequences on a PE each. The first step changes
/// feature 1, and thus the norm of the second step's tokens.
#[test]
fn tokens_of_a_prefill_attend_to_their_window() {
    for (batch, window) in [1, 3].into_iter().flat_map(|batch| WINDOWS.map(|it| (batch, it))) {
        let work = Workload { chunk: 20 * batch, ..work(Phase::Prefill, batch, 40) };
        let cut = cut(window, work);
        assert_eq!((cut.each, cut.tokens()), (20, 20 * batch));
        let steps = added(&cut, &[0, 20]);
        for (sequence, token) in (0..batch).flat_map(|it| (0..20).map(move |token| (it, token))) {
            let row = |step: usize, token: u64| {
                steps[step][usize::try_from(sequence * 20 + token).unwrap()]
            };
            let stored = |position: u64| {
                let feature = sign(sequence, position % 20);
                let changed = if position < 20 { 1.0 } else { 1.0 + row(0, position % 20) };
                feature / ((255.0 + changed * changed) / 256.0_f64).sqrt()
            };
            for (step, position) in [(0, token), (1, 20 + token)] {
                let seen: Vec<_> = (cut.first_seen(position)..=position).map(stored).collect();
                let (found, expected) = (row(step, token), mean(seen.into_iter()));
                let text = format!(
                    "{found}, not {expected}: position {position}, {window:?}, batch {batch}"
                );
                assert!((found - expected).abs() < 1e-3, "{text}");
            }
        }
    }
}

#[test]
fn the_token_of_a_decode_step_attends_to_its_window() {
    for (batch, window) in [1, 3, 9].into_iter().flat_map(|batch| WINDOWS.map(|it| (batch, it))) {
        let cut = cut(window, work(Phase::Decode, batch, 37));
        let found = &added(&cut, &[36])[0];
        for (sequence, found) in (0..batch).zip(found) {
            // The new token of each sequence is the first of its rows.
            let of = |position| sign(sequence, if position == 36 { 0 } else { position });
            let seen: Vec<_> = (cut.first_seen(36)..37).map(of).collect();
            let expected = mean(seen.into_iter());
            let text = format!("{found}, not {expected}: {window:?}, batch {batch}");
            assert!((found - expected).abs() < 1e-3, "{text}");
        }
    }
}
