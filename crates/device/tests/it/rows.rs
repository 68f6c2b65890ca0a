//! Banks, rows and refresh against closed forms.

use cubeyard_device::message::Direction::{self, Read, Write};
use cubeyard_device::model::{ChannelsSpec, MemoryChannels, RefreshSpec, RowsSpec};
use cubeyard_sim::{Span, Time};
use proptest::prelude::*;

const BURST: u64 = 8000;
const ACTIVATE: u64 = 14_000;
const PRECHARGE: u64 = 14_000;
const INTERVAL: u64 = 3_900_000;
const REFRESH: u64 = 160_000;
/// Number of bursts in a row.
const ROW: u64 = 4;

/// HBM2 at 2 Gb/s a pin, 2 Gb a channel, as Ramulator has it (in cycles of 1 ns): nRCD = nRP = nCL = 14,
/// so that an unloaded read takes 42; nRFC 160 and nREFI 3900. A channel moves 32 GB/s; rows of 1 KiB.
fn hbm2(banks: u32, refresh: bool) -> ChannelsSpec {
    let span = Span::from_ps;
    let refresh = refresh.then_some(RefreshSpec { interval: span(INTERVAL), takes: span(REFRESH) });
    let rows = RowsSpec {
        banks,
        row_bytes: ROW * 256,
        activate: span(ACTIVATE),
        precharge: span(PRECHARGE),
        refresh,
    };
    ChannelsSpec {
        burst_bytes: 256,
        channels: 1,
        burst: span(BURST),
        turn_around: Span::ZERO,
        rows: Some(rows),
    }
}

/// Returns the start of a burst, in picoseconds.
fn start(channels: &mut MemoryChannels, number: u64, asked: u64) -> u64 {
    channels.burst(number, Read, Time::from_ps(asked)).ps() - BURST
}

#[test]
fn a_burst_pays_for_the_row_it_finds() {
    let mut channels = MemoryChannels::new(hbm2(2, false));
    // Row 0 of bank 0, which is closed; then the same row; then bank 1; then row 1 of bank 0.
    assert_eq!(start(&mut channels, 0, 0), ACTIVATE);
    assert_eq!(start(&mut channels, 3, 100_000), 100_000);
    assert_eq!(start(&mut channels, ROW, 200_000), 200_000 + ACTIVATE);
    assert_eq!(start(&mut channels, 2 * ROW, 300_000), 300_000 + PRECHARGE + ACTIVATE);
    // Bank 1 still has its row open.
    assert_eq!(start(&mut channels, ROW + 1, 400_000), 400_000);
}

#[test]
fn an_unloaded_read_takes_as_long_as_elsewhere() {
    // (nRP + nRCD + nCL) · tCK = 42.0 ns; the last part is the controller's overhead.
    let mut channels = MemoryChannels::new(hbm2(16, true));
    start(&mut channels, 0, 0);
    assert_eq!(start(&mut channels, 16 * ROW, 100_000) - 100_000 + 14_000, 42_000);
}

#[test]
fn two_rows_of_one_bank_in_turn_pay_each_time() {
    let mut channels = MemoryChannels::new(hbm2(1, false));
    let ends = (0..20).map(|turn| start(&mut channels, turn % 2 * ROW, 0) + BURST);
    let round = PRECHARGE + ACTIVATE + BURST;
    let expected = (0..20).map(|turn| ACTIVATE + BURST + turn * round);
    assert!(ends.eq(expected));
}

#[test]
fn enough_banks_hide_the_rows() {
    // A bank's next row is ready 28 ns after its burst; four others fill 32 ns, three only 24.
    for (banks, period) in [(5, 5 * BURST), (4, PRECHARGE + ACTIVATE + BURST)] {
        let mut channels = MemoryChannels::new(hbm2(banks, false));
        // One burst in each row: row after row is bank after bank.
        let starts: Vec<_> = (0..400).map(|row| start(&mut channels, row * ROW, 0)).collect();
        let banks = banks as usize;
        assert!((banks..400).all(|at| starts[at] - starts[at - banks] == period), "{banks} banks");
    }
}

#[test]
fn a_row_that_is_ready_waits_only_for_the_bus() {
    let mut channels = MemoryChannels::new(hbm2(2, false));
    assert_eq!(start(&mut channels, 0, 0), ACTIVATE);
    // Asked for at the very time that lets it open while the bus is in use, and a picosecond later.
    assert_eq!(start(&mut channels.clone(), ROW, BURST), ACTIVATE + BURST);
    assert_eq!(start(&mut channels.clone(), ROW, BURST + 1), ACTIVATE + BURST + 1);
    assert_eq!(start(&mut channels, ROW, BURST - 1), ACTIVATE + BURST);
}

#[test]
fn a_stream_has_the_rate_of_the_channel_less_the_refresh() {
    let mut channels = MemoryChannels::new(hbm2(16, true));
    let intervals = 200;
    // From the first refresh on.
    let starts = (0..).map(|burst| start(&mut channels, burst, 0));
    let starts = starts.take_while(|&start| start < (1 + intervals) * INTERVAL);
    let bursts = starts.filter(|&start| start >= INTERVAL).count() as u64;
    // Whole bursts fit between the refreshes, so the closed form is exact here.
    assert_eq!(bursts, intervals * (INTERVAL - PRECHARGE - REFRESH - ACTIVATE) / BURST);
    // Ramulator 2.1 has 30.4 GB/s for this preset; it also waits nRTP, 5 ns, before it closes a row.
    let rate = (bursts * 256) as f64 / (intervals * INTERVAL) as f64 * 1000.0;
    assert!((rate - 30.4).abs() < 0.1, "{rate}");
}

#[test]
fn a_burst_starts_before_a_refresh_is_due_or_after_it() {
    let opened = |asked| {
        let mut channels = MemoryChannels::new(hbm2(2, true));
        start(&mut channels, 0, 0);
        start(&mut channels, 1, asked)
    };
    assert_eq!(opened(INTERVAL - 1), INTERVAL - 1);
    assert_eq!(opened(INTERVAL), INTERVAL + PRECHARGE + REFRESH + ACTIVATE);
    // A burst under way is not cut off: the refresh waits for its end.
    let mut channels = MemoryChannels::new(hbm2(2, true));
    start(&mut channels, 0, 0);
    start(&mut channels, 1, INTERVAL - 1);
    let after = INTERVAL - 1 + BURST + PRECHARGE + REFRESH + ACTIVATE;
    assert_eq!(start(&mut channels, 2, INTERVAL + 5), after);
    // The next refresh is due when it always was.
    assert_eq!(start(&mut channels, 2, 2 * INTERVAL - 1), 2 * INTERVAL - 1);
}

#[test]
fn refreshes_go_on_while_nobody_asks() {
    for after in [0, REFRESH - 1, REFRESH, REFRESH + 1, INTERVAL - ACTIVATE - 1] {
        let mut channels = MemoryChannels::new(hbm2(2, true));
        start(&mut channels, 0, 0);
        let asked = 1_000_000 * INTERVAL + after;
        // The row was closed long ago; a refresh is under way, or it is over.
        assert_eq!(start(&mut channels, 0, asked), asked.max(asked - after + REFRESH) + ACTIVATE);
    }
    // A row that would be open too late is opened after the refresh.
    let mut channels = MemoryChannels::new(hbm2(2, true));
    let late = INTERVAL - ACTIVATE;
    assert_eq!(start(&mut channels, 0, late), INTERVAL + REFRESH + ACTIVATE);
}

fn asks() -> impl Strategy<Value = Vec<(u64, bool, u64)>> {
    let gap = prop_oneof![3 => Just(0_u64), 3 => 0..40_000_u64, 1 => 0..20_000_000_u64];
    proptest::collection::vec((0..400_u64, any::<bool>(), gap), 1..300)
}

fn direction(write: bool) -> Direction {
    if write { Write } else { Read }
}

proptest! {
    #[test]
    fn rows_that_cost_nothing_change_nothing(asks in asks(), banks in 1..9_u32, turn in 0..9000_u64) {
        let none = Span::ZERO;
        let rows = RowsSpec { banks, row_bytes: 1024, activate: none, precharge: none, refresh: None };
        let plain = ChannelsSpec {
            channels: 4,
            turn_around: Span::from_ps(turn),
            rows: None,
            ..hbm2(banks, false)
        };
        let mut with = MemoryChannels::new(ChannelsSpec { rows: Some(rows), ..plain });
        let mut without = MemoryChannels::new(plain);
        let mut now = Time::ZERO;
        for (number, write, gap) in asks {
            now += Span::from_ps(gap);
            let burst = |channels: &mut MemoryChannels| channels.burst(number, direction(write), now);
            prop_assert_eq!(burst(&mut with), burst(&mut without));
        }
    }

    #[test]
    fn the_bus_is_serial_rows_are_paid_for_and_refreshes_are_kept(asks in asks(), banks in 1..9_u32) {
        let mut channels = MemoryChannels::new(hbm2(banks, true));
        let (mut now, mut free) = (0, 0);
        // Of each bank: the row, and the end of its last burst.
        let mut last = vec![None; banks as usize];
        for (number, _, gap) in asks {
            now += gap;
            let at = start(&mut channels, number, now);
            prop_assert!(at >= now.max(free));
            let row = number / ROW;
            let bank = usize::try_from(row % u64::from(banks)).unwrap();
            if let Some((before, end)) = last[bank].replace((row, at + BURST)) {
                let cost = if before == row { 0 } else { PRECHARGE + ACTIVATE };
                prop_assert!(at >= end + cost);
            }
            // Between two bursts of different intervals lies a refresh.
            if free > 0 && at / INTERVAL > (free - BURST) / INTERVAL {
                prop_assert!(at >= free + REFRESH + ACTIVATE);
                prop_assert!(at % INTERVAL >= REFRESH + ACTIVATE);
            }
            free = at + BURST;
        }
    }
}
