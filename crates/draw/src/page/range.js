// The shown range of an axis: it zooms and moves, and has round numbers for its ticks.
(function () {
  'use strict';

  /** Shows an axis from 0 to `end`, or a part of it that is not shorter than `least`. */
  function Range(end, least) {
    this.end = Math.max(1, end);
    this.least = Math.min(least, this.end);
    this.all();
  }

  Range.prototype.all = function () { this.show(0, this.end); };

  Range.prototype.show = function (from, to) {
    const length = Math.min(this.end, Math.max(this.least, to - from));
    this.from = Math.min(this.end - length, Math.max(0, from));
    this.to = this.from + length;
  };

  /** Shows `factor` times as much; what is at a share of the range stays there. */
  Range.prototype.zoom = function (factor, share) {
    const length = this.to - this.from, at = this.at(share);
    this.show(at - share * length * factor, at + (1 - share) * length * factor);
  };

  /** Moves by a share of the range. */
  Range.prototype.move = function (share) {
    const by = share * (this.to - this.from);
    this.show(this.from + by, this.to + by);
  };

  /** Returns the number at a share of the range. */
  Range.prototype.at = function (share) { return this.from + share * (this.to - this.from); };

  /** Moves to show a part of the axis in the middle, if nothing of it is shown. */
  Range.prototype.reveal = function (from, to) {
    const half = (this.to - this.from) / 2, middle = (from + to) / 2;
    if (from >= this.to || this.from >= to) { this.show(middle - half, middle + half); }
  };

  /** Returns round numbers between two others, at most about `most`, and their distance. `base` is 10, or 2. */
  cubeyard.roundNumbers = function (from, to, most, base) {
    const least = (to - from) / most, log = base === 2 ? Math.log2 : Math.log10, numbers = [];
    const power = Math.pow(base, Math.floor(log(least)));
    const step = power * (base === 2 ? [1, 2] : [1, 2, 5, 10]).find(function (it) { return it * power >= least; });
    for (let index = Math.ceil(from / step); to >= index * step; index += 1) { numbers.push(index * step); }
    return {numbers: numbers, step: step};
  };

  /** Returns round instants between two others, and the text of each; `pixels` is the room for all texts. */
  cubeyard.instants = function (from, to, pixels) {
    const most = Math.min(9, Math.max(2, Math.floor(pixels / 52)));
    const round = cubeyard.roundNumbers(from, to, most, 10), step = round.step;
    const size = [1e12, 1e9, 1e6, 1e3].find(function (it) { return to >= it; }) || 1e3;
    const unit = {1e12: 's', 1e9: 'ms', 1e6: 'µs', 1e3: 'ns'}[size];
    const decimals = Math.min(9, Math.max(0, -Math.floor(Math.log10(step / size * 1.000001))));
    return round.numbers.map(function (ps) { return {ps: ps, text: (ps / size).toFixed(decimals) + ' ' + unit}; });
  };

  /** Returns a colour of the page, light or dark, by the name of its CSS variable. */
  cubeyard.css = function (name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); };

  cubeyard.Range = Range;
}());
