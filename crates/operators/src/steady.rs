//! Extrapolation from the steady state of a kernel.

use crate::cost::Measured;
use crate::error::OperatorError;
use crate::machine::Ran;

/// Runs a kernel of `total` equal steps for each PE. Beyond `few[1]` steps, it runs `few[0]` and `few[1]` of them, and each
/// further step takes what a step takes between the two.
pub(crate) fn steady(
    total: u64,
    few: [u64; 2],
    mut run: impl FnMut(u64) -> Result<Ran, OperatorError>,
) -> Result<Measured, OperatorError> {
    if total <= few[1] + few[1] / 2 {
        return Ok(Measured { ran: run(total)?, extrapolated: false });
    }
    let [short, long] = [run(few[0])?, run(few[1])?];
    Ok(Measured { ran: further(long, short, total - few[1], few[1] - few[0]), extrapolated: true })
}

/// Returns `long` with `count` more steps, if it has `by` steps more than `short`.
pub(crate) fn further(long: Ran, short: Ran, count: u64, by: u64) -> Ran {
    let more = |long: u64, short: u64| long + scaled(long.saturating_sub(short), count, by);
    let moved = [0, 1].map(|at| more(long.moved[at], short.moved[at]));
    Ran { ps: more(long.ps, short.ps), moved, sampled: long.sampled || short.sampled }
}

/// Returns `amount · times / of`, rounded up.
pub(crate) fn scaled(amount: u64, times: u64, of: u64) -> u64 {
    let product = u128::from(amount) * u128::from(times);
    u64::try_from(product.div_ceil(u128::from(of.max(1)))).unwrap_or(u64::MAX)
}
