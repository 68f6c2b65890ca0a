use super::*;
use crate::policy;
use crate::policy::{EXPANDABLE, PYTORCH};
use crate::trace::script::Script;
use proptest::prelude::*;

fn replayed(script: &str, policies: &[&str]) -> Report {
    let trace = Script::parse(script).unwrap().to_trace("test").unwrap();
    let row = |name: &&str| policy(name).unwrap().replay(&trace, &mut || 0, &mut |_| {});
    let mut report = Report { rows: policies.iter().map(row).collect(), ..Report::new(&trace) };
    report.find_least(&trace);
    report
}

/// Blocks of 100 MiB are cut for small requests that stay, so that the next large ones need new memory.
fn fragmenting() -> String {
    let round = |round| {
        format!("alloc large{round} 100 MiB\nfree large{round}\nalloc kept{round} 11 MiB\n")
    };
    let rounds: Vec<_> = (0..4).map(round).collect();
    rounds.concat() + "alloc last 100 MiB\n"
}

#[test]
fn the_setting_that_needs_the_least_is_recommended_and_the_others_are_named() {
    let report = replayed(&fragmenting(), &[PYTORCH, EXPANDABLE, "recycle"]);
    let texts: Vec<_> = report.settings.iter().map(|setting| setting.text.as_str()).collect();
    assert_eq!(texts, ["", "expandable_segments:True", "max_split_size_mb:32"]);
    // A block of 100 MiB that is not cut can be used again: 100 + 4 × 12.
    assert_eq!(report.settings[2].reserved, Bytes::mib(148));
    let needs = |at: usize| report.settings[at].least.memory();
    let (least, at) = (1..3).map(|at| (needs(at), at)).min().unwrap();
    let found = answer(std::slice::from_ref(&report));
    let expected = Answer {
        text: format!("PyTorch needs {}; {least} with this setting:", needs(0)),
        setting: Some(format!("PYTORCH_CUDA_ALLOC_CONF={}", texts[at])),
        needs: Some(needs(0)),
        needs_with_setting: Some(least),
    };
    assert_eq!(found, expected);
    let other = format!("With PYTORCH_CUDA_ALLOC_CONF={} PyTorch needs", texts[3 - at]);
    let said = advice(std::slice::from_ref(&report));
    assert_eq!(said.contains(&other), needs(3 - at) < needs(0), "{said}");
    assert!(!said.contains(texts[at]) || !said.contains("ALLOC_CONF=expandable"), "{said}");
}

#[test]
fn without_a_setting_that_saves_memory_the_answer_says_so() {
    let report = replayed("alloc a 20 MiB\n", &[PYTORCH, EXPANDABLE]);
    let found = answer(&[report]);
    assert_eq!(found.text, "PyTorch needs 20.00 MiB, and no setting of it needs less.");
    assert_eq!((found.setting, found.needs_with_setting), (None, None));
}

#[test]
fn without_pytorch_the_answer_is_the_first_sentence_of_the_advice() {
    let report = replayed("alloc a 20 MiB\n", &["best-fit", "recycle"]);
    let said = advice(std::slice::from_ref(&report));
    let found = answer(&[report]);
    assert_eq!((Some(&found.text[..]), found.needs), (said.lines().next(), None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Sizes in MiB; a block is freed if its lifetime, in blocks, ends before the trace does.
    #[test]
    fn the_answer_does_not_depend_on_the_order_of_policies(
        blocks in proptest::collection::vec((1_u64..60, 1_usize..8), 2..14),
        turn in 0..4_usize,
    ) {
        let mut lines = Vec::new();
        for at in 0..blocks.len() {
            for (earlier, (_, life)) in blocks.iter().enumerate().take(at) {
                if earlier + life == at {
                    lines.push(format!("free b{earlier}\n"));
                }
            }
            lines.push(format!("alloc b{at} {} MiB\n", blocks[at].0));
        }
        let script = lines.concat();
        let mut policies = [PYTORCH, EXPANDABLE, "first-fit", "best-fit", "recycle"];
        let first = replayed(&script, &policies);
        policies.rotate_left(turn + 1);
        let other = replayed(&script, &policies);
        let star = |report: &Report| report.recommended().map(|row| row.policy.name);
        prop_assert_eq!(star(&first), star(&other));
        let [first, other] = [[first], [other]];
        prop_assert_eq!(answer(&first), answer(&other));
        prop_assert_eq!(advice(&first), advice(&other));
    }
}
