//! Packed blocks are unpacked without loss.

use super::*;
use crate::trace::script::Script;
use crate::{BlockMap, policy};
use cubeyard_units::Bytes;
use flate2::read::GzDecoder;
use proptest::prelude::*;
use std::io::Read as _;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Reads base64, six bits of each digit.
fn from_base64(text: &str) -> Vec<u8> {
    let digits =
        text.bytes().filter_map(|digit| (0..64).find(|it: &u8| DIGITS[usize::from(*it)] == digit));
    let bits: Vec<_> =
        digits.flat_map(|digit| (0..6).rev().map(move |bit: u8| digit >> bit & 1)).collect();
    bits.chunks_exact(8).map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | bit)).collect()
}

/// Returns the decoded contents of the elements of a class, in the order of the page.
fn unpacked(page: &str, class: &str) -> Vec<Vec<u8>> {
    let begin = format!("class=\"packed {class}\">");
    let parts = page.split(&begin).skip(1).map(|rest| rest.split('<').next().unwrap());
    let unzipped = parts.map(|part| {
        let (packed, mut bytes) = (from_base64(part), Vec::new());
        GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        bytes
    });
    unzipped.collect()
}

/// Reads numbers of seven bits in each byte.
fn numbers(bytes: &[u8]) -> Vec<i128> {
    let mut numbers = Vec::new();
    let (mut number, mut place) = (0, 0);
    for byte in bytes {
        number |= i128::from(byte & 127) << place;
        place += 7;
        if *byte < 128 {
            numbers.push(number);
            (number, place) = (0, 0);
        }
    }
    numbers
}

/// Reads columns as the script does: first and last event, start, size and name of each block.
fn read(bytes: &[u8]) -> Vec<[i128; 5]> {
    let numbers = numbers(bytes);
    let count = numbers.len() / 5;
    let (mut event, mut start) = (0, 0);
    let block = |at: usize| {
        let [from, life, address, size, name] = [0, 1, 2, 3, 4].map(|it| numbers[it * count + at]);
        event += from;
        start += if address % 2 == 0 { address / 2 } else { -(address + 1) / 2 };
        [event, event + life, start, size, name]
    };
    (0..count).map(block).collect()
}

fn plain_list(blocks: &[MappedBlock]) -> Vec<[i128; 5]> {
    let block = |it: &MappedBlock| {
        let [from, to, name] = [it.from, it.to, it.name].map(|it| it as i128);
        [from, to, it.start.get().into(), it.size.get().into(), name]
    };
    blocks.iter().map(block).collect()
}

proptest! {
    #[test]
    fn columns_are_read_as_they_were_written(
        plan in prop::collection::vec((1_usize..300, 0_usize..100_000, any::<u64>(), any::<u64>(), 0_usize..400), 0..60),
    ) {
        let mut now = 0;
        let blocks: Vec<_> = plan.iter().map(|&(gap, life, start, size, name)| {
            now += gap;
            let [start, size] = [start, size].map(Bytes::new);
            MappedBlock { from: now, to: now + life, start, size, name }
        }).collect();
        prop_assert_eq!(read(&columns(&blocks)), plain_list(&blocks));
    }
}

#[test]
fn a_page_holds_the_blocks_and_names_of_every_map() {
    let script = "alloc a 3 MiB\nalloc b 20 MiB\nfree a\nalloc c 1 MiB\nalloc d 2 MiB\n";
    let trace = Script::parse(script).unwrap().to_trace("test").unwrap();
    let maps =
        ["pytorch", "best-fit"].map(|name| BlockMap::new(policy(name).unwrap(), &trace).unwrap());
    let page = figure(&maps, &|_| "#123456");
    let (held, names) = (unpacked(&page, "columns"), unpacked(&page, "names"));
    assert_eq!(held.len(), 2);
    for (map, bytes) in maps.iter().zip(held) {
        assert_eq!(read(&bytes), plain_list(&map.blocks), "{}", map.policy);
    }
    assert_eq!(names, [b"#123456\t(not recorded)", b"#123456\t(not recorded)"]);
    assert!(page.contains("data-events=\"5\""));
}

/// 100,000 blocks of a loop with varying sizes and lifetimes, which compress less than blocks of recorded programs.
#[test]
fn a_hundred_thousand_blocks_stay_below_two_megabytes() {
    let mut state = 1_u64;
    let mut random = |below: u32| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(state >> 33).unwrap() % below
    };
    let blocks = (0..100_000).map(|at| {
        let (from, name) = (2 * at, random(50) as usize);
        let (start, size) = (512 * u64::from(random(8 << 20)), 512 * u64::from(random(4096)));
        let [start, size] = [start, size].map(Bytes::new);
        MappedBlock { from, to: from + 1 + random(2000) as usize, start, size, name }
    });
    let blocks: Vec<_> = blocks.collect();
    let names = (0..50).map(|name| format!("train.py:{name} step")).collect();
    let (policy, height) = ("pytorch", Bytes::gib(4));
    let map = BlockMap { policy, events: 202_000, height, names, blocks, left_out: 7 };
    let page = figure(&[map], &|_| "#123456");
    assert!(page.len() < 2_000_000, "{}", page.len());
    assert!(page.contains("the largest 100,000 of 100,007 blocks</p>"));
}
