//! Layout of weights and caches: every element of the model is placed, and padding is outside the model.

use std::collections::BTreeMap;

use cubeyard_model::cut::ExpertPlacement;
use cubeyard_model::spec::Experts;
use cubeyard_model::{Cut, Held, ModelSpec, Phase, Workload};

use crate::{small, tiny, work};

/// Counts the copies of each element of a tensor over all SIPs, and the padding.
fn copies(cut: &Cut, held: Held) -> (BTreeMap<[u64; 3], u64>, u64) {
    let (mut copies, mut padding) = (BTreeMap::new(), 0);
    for origin in (0..cut.sips).flat_map(|sip| cut.origins(held, sip)) {
        match origin {
            Some(at) => *copies.entry([at.matrix, at.row, at.column]).or_default() += 1,
            None => padding += 1,
        }
    }
    (copies, padding)
}

/// Models that the small machine divides evenly and unevenly, with and without experts.
fn cuts() -> Vec<Cut> {
    let of = |hidden, ffn, heads, kv_heads, head_dim| ModelSpec {
        hidden,
        ffn,
        heads,
        kv_heads,
        head_dim,
        vocab: 67,
        ..tiny()
    };
    let mut specs = vec![tiny(), of(64, 64, 6, 2, 16), of(64, 48, 9, 3, 6), of(63, 71, 5, 1, 10)];
    for experts in [Experts { count: 6, active: 2 }, Experts { count: 4, active: 1 }] {
        let mut spec = of(30, 22, 4, 2, 8);
        spec.family.experts = Some(experts);
        specs.push(spec);
    }
    let works = [work(Phase::Decode, 1, 7), work(Phase::Decode, 9, 5), work(Phase::Prefill, 3, 40)];
    let placements = [ExpertPlacement::Split, ExpertPlacement::Sip, ExpertPlacement::Cube];
    let works = works.into_iter().flat_map(|work| placements.map(|experts| (work, experts)));
    let works: Vec<_> = works.map(|(work, experts)| Workload { experts, ..work }).collect();
    let of = |spec: &ModelSpec| {
        works.iter().map(|&work| Cut::new(spec, work, &small(), 2).unwrap()).collect::<Vec<_>>()
    };
    specs.iter().flat_map(of).collect()
}

/// Checks that `count` matrices of a tensor are held completely, and that `times` accepts the copies of each element.
fn check(cut: &Cut, held: Held, count: u64, times: impl Fn(u64) -> bool) {
    let ([rows, columns], (copies, _)) = (cut.matrix_shape(held), copies(cut, held));
    assert_eq!(copies.len() as u64, count * rows * columns, "{held:?} of {cut:?}");
    for ([matrix, row, column], copies) in copies {
        assert!(matrix < count && row < rows && column < columns, "{held:?} of {cut:?}");
        assert!(times(copies), "{copies} copies in {held:?} of {cut:?}");
    }
}

#[test]
fn weights_of_every_layer_are_held_once_and_completely() {
    for cut in cuts() {
        check(&cut, Held::Output, 1, |copies| copies == 1);
        check(&cut, Held::GateUp, 2 * cut.experts(), |copies| copies == 1);
        check(&cut, Held::Down, cut.experts(), |copies| copies == 1);
        check(&cut, Held::Head, 1, |copies| copies == 1);
        // Each SIP has the whole table.
        check(&cut, Held::Table, 1, |copies| copies == cut.sips);
    }
}

#[test]
fn heads_of_q_are_projected_once_and_heads_of_k_and_v_once_for_each_copy() {
    for cut in cuts() {
        let queries = cut.spec.heads * cut.spec.head_dim;
        for held in [Held::Qkv, Held::QkvBias, Held::QkvScales] {
            check(&cut, held, 1, |copies| copies == 1 || copies == cut.heads.copies);
            for ([_, _, column], copies) in copies(&cut, held).0 {
                assert!(column >= queries || copies == 1, "{held:?} of {cut:?}");
            }
        }
    }
}

#[test]
fn caches_have_room_for_every_token_of_every_sequence() {
    for cut in cuts() {
        let rest = cut.rest.as_deref().map_or(0, |rest| rest.work.batch);
        let sequences = cut.work.batch - rest;
        let of = |head: u64| (0..sequences).map(move |sequence| head * cut.work.batch + sequence);
        for held in [Held::Keys, Held::Values] {
            let (copies, _) = copies(&cut, held);
            for matrix in (0..cut.spec.kv_heads).flat_map(of) {
                for token in 0..cut.work.context {
                    let found = copies.get(&[matrix, token, 0]);
                    assert_eq!(
                        found,
                        Some(&cut.heads.copies),
                        "{held:?} {matrix} {token} of {cut:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_model_that_the_machine_divides_has_no_padding() {
    let cut = Cut::new(&tiny(), work(Phase::Decode, 4, 64), &small(), 2).unwrap();
    for held in [Held::Qkv, Held::Output, Held::GateUp, Held::Down, Held::Head, Held::Keys] {
        let (copies, padding) = copies(&cut, held);
        assert!(padding == 0 && !copies.is_empty(), "{held:?}");
    }
}
