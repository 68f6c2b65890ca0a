//! Answer of a replay: the memory that PyTorch needs, and the setting under which it needs less.

use super::{NOTICEABLE, Report, advice, holder, is_idle};
use crate::Setting;
use crate::settings::VARIABLE;
use cubeyard_units::Bytes;

/// Answer of a replay, the same for any order of the policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// One sentence. It ends with a colon if a setting follows.
    pub text: String,
    /// Recommended setting as a line for a shell; `None` if no setting needs less.
    pub setting: Option<String>,
    /// Least memory in which PyTorch serves each trace with the present setting; `None` if it is not known.
    pub needs: Option<Bytes>,
    /// Least memory with the recommended setting.
    pub needs_with_setting: Option<Bytes>,
}

/// Memory under a setting: the most over several traces, which belong to several devices.
struct Offer<'s> {
    text: &'s str,
    needs: Bytes,
    reserved: Bytes,
}

/// Returns the answer on reports whose least memory was determined. Reports with a [`Doubt`](crate::Doubt) are left out.
/// If PyTorch was not replayed, the answer is the first sentence of the [`advice`].
pub fn answer(reports: &[Report]) -> Answer {
    let telling: Vec<_> =
        reports.iter().filter(|it| !is_idle(it) && it.doubt().is_none()).collect();
    let present = telling.iter().map(|report| report.present_least()).collect::<Option<Vec<_>>>();
    let Some(needs) = present.and_then(|all| all.into_iter().max()) else {
        let text = advice(reports).lines().next().unwrap_or_default().to_owned();
        return Answer { text, setting: None, needs: None, needs_with_setting: None };
    };
    let settings: Vec<_> = telling.iter().map(|report| &report.settings[..]).collect();
    let best = best(&settings);
    let subject = subject(&telling);
    let text = match &best {
        None => format!("{subject} needs {needs}, and no setting of it needs less."),
        Some((present, best)) if saves(best.needs, present.needs) => {
            format!("{subject} needs {needs}; {} with this setting:", best.needs)
        }
        Some((present, best)) => format!(
            "{subject} needs {needs} with any setting; it reserves {} instead of {} with this setting:",
            best.reserved, present.reserved
        ),
    };
    Answer {
        text,
        setting: best.as_ref().map(|(_, best)| line(best.text)),
        needs: Some(needs),
        needs_with_setting: best.map(|(_, best)| best.needs),
    }
}

fn subject(reports: &[&Report]) -> String {
    let mut holders: Vec<_> = reports.iter().map(|report| holder(report)).collect();
    holders.dedup();
    let by = if let [one] = holders[..] { one } else { "PyTorch" };
    match reports.len() {
        1 => by.to_owned(),
        count => format!("On the device that needs the most of these {count}, {by}"),
    }
}

fn line(text: &str) -> String {
    format!("{VARIABLE}={text}")
}

/// Returns whether `less` is noticeably less than `more`.
fn saves(less: Bytes, more: Bytes) -> bool {
    less.get() as f64 <= more.get() as f64 * (1.0 - NOTICEABLE)
}

/// Returns the present setting, and the setting that needs the least and saves memory.
fn best<'s>(traces: &[&'s [Setting]]) -> Option<(Offer<'s>, Offer<'s>)> {
    let [present, others @ ..] = &mut offers(traces)[..] else { return None };
    others.sort_by(|one, other| {
        (one.needs, one.reserved, one.text).cmp(&(other.needs, other.reserved, other.text))
    });
    let copy = |offer: &Offer<'s>| Offer { ..*offer };
    Some((copy(present), copy(others.first()?)))
}

/// Returns the settings that apply to all of these traces, the present one first.
fn offers<'s>(traces: &[&'s [Setting]]) -> Vec<Offer<'s>> {
    let offer = |text: &'s str| {
        let found = traces.iter().map(|all| all.iter().find(|setting| setting.text == text));
        let found = found.collect::<Option<Vec<_>>>()?;
        let needs = found.iter().map(|it| it.least.memory()).max()?;
        Some(Offer { text, needs, reserved: found.iter().map(|it| it.reserved).max()? })
    };
    let first = traces.first().copied().unwrap_or_default();
    first.iter().filter_map(|setting| offer(&setting.text)).collect()
}

/// Returns a line for each setting that saves memory and that the answer does not recommend.
pub(super) fn other_settings(traces: &[&[Setting]]) -> Vec<String> {
    let Some((present, best)) = best(traces) else { return Vec::new() };
    let others = offers(traces).into_iter().skip(1).filter(|offer| offer.text != best.text);
    let saving = others.filter(|offer| saves(offer.needs, present.needs));
    let sentence = |offer: Offer<'_>| {
        format!(
            "With {} PyTorch needs {} instead of {}.",
            line(offer.text),
            offer.needs,
            present.needs
        )
    };
    saving.map(sentence).collect()
}

#[cfg(test)]
mod tests;
