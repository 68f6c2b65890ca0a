// Quantities as text: four significant digits and the unit that fits, as on the terminal.
(function () {
  'use strict';
  const BINARY = [[1, 'B'], [1024, 'KiB'], [1048576, 'MiB'], [1073741824, 'GiB'], [1099511627776, 'TiB']];
  const DECIMAL = [[1, ''], [1e3, 'k'], [1e6, 'M'], [1e9, 'G'], [1e12, 'T'], [1e15, 'P'], [1e18, 'E']];
  const TIMES = [[1e3, 'ns'], [1e6, 'µs'], [1e9, 'ms'], [1e12, 's']];

  /** Returns the largest unit not above the value; the smallest if there is none. */
  function fitting(units, value) {
    const size = Math.abs(value) * (1 + 1e-12);
    return units.filter(function (unit) { return unit[0] === units[0][0] || size >= unit[0]; }).pop();
  }

  /** Returns a number with four significant digits and without trailing zeros. */
  function digits(value) {
    if (Math.abs(value) >= 1000) { return Math.round(value).toLocaleString('en'); }
    return String(Number(value.toPrecision(4)));
  }

  /** Formats a value of a quantity: `bytes`, `ps`, `us`, `B/s`, or a plain number. */
  cubeyard.text = function (value, quantity) {
    if (quantity === 'ps' || quantity === 'us') {
      const ps = quantity === 'us' ? value * 1e6 : value, unit = fitting(TIMES, ps);
      return digits(ps / unit[0]) + ' ' + unit[1];
    }
    if (quantity === 'bytes') {
      const unit = fitting(BINARY, value);
      return digits(value / unit[0]) + ' ' + unit[1];
    }
    if (quantity === '') { return digits(value); }
    const unit = fitting(DECIMAL, value);
    return digits(value / unit[0]) + ' ' + unit[1] + quantity;
  };
}());
