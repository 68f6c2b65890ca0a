// Charts: replaces the picture of a figure by a chart with zoom, values under the pointer, and lines that can be
// switched off. The picture stays for print.
(function () {
  'use strict';
  const HEIGHT = 340;

  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

  /** Splits numbers into the columns of a chart: the positions, then the values of each line, null where missing. */
  function columnsOf(buffer, count) {
    const numbers = new Float64Array(buffer), length = numbers.length / count;
    return Array.from({length: count}, function (_, column) {
      const values = numbers.subarray(column * length, (column + 1) * length);
      return column ? Array.from(values, function (it) { return isNaN(it) ? null : it; }) : Array.from(values);
    });
  }

  function scaleOf(kind) {
    return kind === 'linear' ? {time: false} : {time: false, distr: 3, log: kind === 'log2' ? 2 : 10};
  }

  function axisOf(quantity, label, size, text) {
    const axis = {
      label: label,
      size: size,
      stroke: function () { return colour('--soft'); },
      grid: {stroke: function () { return colour('--line'); }, width: 1},
      ticks: {stroke: function () { return colour('--line'); }, width: 1},
      font: '12px system-ui, sans-serif',
      labelFont: '12px system-ui, sans-serif',
      values: function (_, ticks) {
        return ticks.map(function (tick) { return tick === null ? '' : text(tick); });
      }
    };
    if (quantity === 'bytes') {
      axis.incrs = Array.from({length: 60}, function (_, power) { return Math.pow(2, power); });
    }
    return axis;
  }

  /** Returns the function that writes a position: the name of its place, or a quantity. */
  function positionText(figure) {
    const names = Array.from(figure.querySelectorAll('.names li'), function (it) { return it.textContent; });
    if (!names.length) { return function (value) { return cubeyard.text(value, figure.dataset.xUnit); }; }
    return function (value) { return names[value] || ''; };
  }

  function seriesOf(item) {
    const data = item.dataset, shape = data.shape.split(' ');
    return {
      label: item.textContent,
      stroke: data.colour,
      width: Number(data.width),
      dash: data.dash ? data.dash.split(' ').map(Number) : undefined,
      fill: shape.includes('filled') ? data.colour + '44' : undefined,
      paths: shape.includes('scattered') ? function () { return null; } :
        shape.includes('stepped') ? uPlot.paths.stepped({align: 1}) : uPlot.paths.linear(),
      points: {show: shape.includes('dotted') || shape.includes('scattered'), size: 7, fill: data.colour},
      spanGaps: true
    };
  }

  /** Returns a button of a toolbar. */
  function button(text, title, act) {
    const made = document.createElement('button');
    made.type = 'button';
    made.textContent = text;
    made.title = title;
    made.setAttribute('aria-label', title);
    made.addEventListener('click', act);
    return made;
  }

  /** Returns the range after moving by a share of its length and scaling around its middle, in the scale's own measure. */
  function movedRange(chart, by, factor) {
    const scale = chart.scales.x, isLog = scale.distr === 3;
    const to = isLog ? Math.log : Number, back = isLog ? Math.exp : Number;
    const low = to(scale.min), high = to(scale.max), length = high - low;
    const middle = (low + high) / 2 + by * length, half = length * factor / 2;
    return {min: back(middle - half), max: back(middle + half)};
  }

  function fullRange(chart) {
    const xs = chart.data[0];
    return {min: xs[0], max: xs[xs.length - 1]};
  }

  function move(chart, by, factor) {
    const range = movedRange(chart, by, factor), full = fullRange(chart);
    chart.setScale('x', {min: Math.max(range.min, full.min), max: Math.min(range.max, full.max)});
  }

  function toolbar(chart) {
    const tools = document.createElement('div');
    tools.className = 'tools';
    tools.append(
      button('+', 'Zoom in', function () { move(chart, 0, 0.5); }),
      button('−', 'Zoom out', function () { move(chart, 0, 2); }),
      button('←', 'Move left', function () { move(chart, -0.25, 1); }),
      button('→', 'Move right', function () { move(chart, 0.25, 1); }),
      button('all', 'Show everything', function () { chart.setScale('x', fullRange(chart)); }),
      document.createElement('output')
    );
    tools.lastChild.textContent = 'Drag to zoom; arrow keys read values.';
    return tools;
  }

  /** Turns the list of lines into buttons that switch them, each with the value under the pointer. */
  function makeLegend(chart, items) {
    items.forEach(function (item, index) {
      const name = item.textContent, value = document.createElement('span');
      const swatch = document.createElement('i'), toggle = button('', 'Show or hide ' + name, function () {
        const shown = toggle.getAttribute('aria-pressed') !== 'true';
        toggle.setAttribute('aria-pressed', String(shown));
        chart.setSeries(index + 1, {show: shown});
      });
      toggle.setAttribute('aria-pressed', 'true');
      swatch.style.background = item.dataset.colour;
      value.className = 'value';
      toggle.append(swatch, name);
      item.replaceChildren(toggle, value);
    });
  }

  /** Shows the values at a position in the legend and above it. */
  function showValues(chart, figure, texts) {
    const at = chart.cursor.idx, lines = figure.querySelectorAll('.lines li');
    figure.querySelector('.at').textContent = at === null || at === undefined ? '' : texts.x(chart.data[0][at]);
    lines.forEach(function (item, index) {
      const known = at === null || at === undefined ? null : chart.data[index + 1][at];
      item.querySelector('.value').textContent = known === null || known === undefined ? '' : texts.y(known);
    });
  }

  /** Moves the cursor from point to point by the arrow keys. */
  function readByKeys(chart) {
    chart.over.addEventListener('keydown', function (event) {
      const step = {ArrowLeft: -1, ArrowRight: 1}[event.key], xs = chart.data[0];
      if (!step) { return; }
      event.preventDefault();
      const known = chart.cursor.idx, from = known === null || known === undefined ? (step > 0 ? -1 : xs.length) : known;
      const at = Math.min(xs.length - 1, Math.max(0, from + step));
      chart.setCursor({left: chart.valToPos(xs[at], 'x'), top: 1});
    });
  }

  function build(figure, columns) {
    const data = figure.dataset, items = Array.from(figure.querySelectorAll('.lines li'));
    const texts = {x: positionText(figure), y: function (value) { return cubeyard.text(value, data.yUnit); }};
    const place = figure.querySelector('.drawn');
    const chart = new uPlot({
      width: place.clientWidth,
      height: HEIGHT,
      legend: {show: false},
      cursor: {drag: {x: true, y: false}, points: {size: 8}},
      scales: {
        x: Object.assign(scaleOf(data.xScale), {range: function (_, low, high) { return [low, high]; }}),
        y: scaleOf(data.yScale)
      },
      axes: [axisOf(data.xUnit, data.xLabel, 34, texts.x), axisOf(data.yUnit, data.yLabel, 76, texts.y)],
      series: [{}].concat(items.map(seriesOf)),
      hooks: {setCursor: [function (it) { showValues(it, figure, texts); }]}
    }, columns, place);
    chart.over.tabIndex = 0;
    chart.over.setAttribute('role', 'group');
    chart.over.setAttribute('aria-label', figure.getAttribute('aria-label'));
    makeLegend(chart, items);
    readByKeys(chart);
    place.after(toolbar(chart));
    new ResizeObserver(function () {
      if (place.clientWidth) { chart.setSize({width: place.clientWidth, height: HEIGHT}); }
    }).observe(place);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', function () { chart.redraw(); });
    figure.classList.add('live');
    figure.chart = chart;
  }

  document.querySelectorAll('figure.chart').forEach(function (figure) {
    const lines = figure.querySelectorAll('.lines li').length;
    cubeyard.unpack(figure.querySelector('.packed')).then(function (buffer) {
      build(figure, columnsOf(buffer, lines + 1));
    });
  });
}());
