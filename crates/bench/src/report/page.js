// Enlarges the timeline with the buttons, or the wheel and Ctrl; moves it by dragging; shows at once
// what is under the pointer. Without it the timeline stays as it is drawn.
(function () {
  'use strict';
  var plot = document.querySelector('.plot');
  if (!plot) { return; }
  var picture = plot.parentNode, ticks = picture.querySelector('.ticks');
  var left = +plot.getAttribute('x'), top = +plot.getAttribute('y');
  var width = +plot.getAttribute('width'), height = +plot.getAttribute('height');
  var end = +plot.dataset.end, from = 0, share = 1, drawn = ticks.innerHTML;
  var unit = [[1e12, 's'], [1e9, 'ms'], [1e6, 'µs'], [1e3, 'ns'], [0, 'ns']].find(function (it) {
    return end >= it[0];
  });
  var size = unit[0] || 1e3;

  function add(name, attributes, text) {
    var node = document.createElementNS('http://www.w3.org/2000/svg', name);
    Object.keys(attributes).forEach(function (key) { node.setAttribute(key, attributes[key]); });
    node.textContent = text;
    ticks.appendChild(node);
  }

  function scale() {
    var length = end / size * share, least = length / 9;
    var power = Math.pow(10, Math.floor(Math.log10(least)));
    var step = power * [1, 2, 5, 10].find(function (it) { return it * power >= least; });
    var decimals = Math.min(9, Math.max(0, -Math.floor(Math.log10(step * 1.000001))));
    var first = Math.ceil(from * end / size / step), value = first * step;
    ticks.textContent = '';
    for (var place = first; end / size * (from + share) * 1.000001 >= value; value = ++place * step) {
      var x = left + (value * size / end - from) / share * width;
      add('path', {'class': 'grid', d: 'M' + x + ' ' + (top - 4) + 'V' + (top + height)}, '');
      add('text', {'class': 'soft', 'text-anchor': 'middle', x: x, y: top - 10}, value ? value.toFixed(decimals) : '0');
    }
  }

  function show(newFrom, newShare) {
    share = Math.min(1, Math.max(1e-6, newShare));
    from = Math.min(1 - share, Math.max(0, newFrom));
    plot.setAttribute('viewBox', [from * width, 0, share * width, height].join(' '));
    if (share === 1) { ticks.innerHTML = drawn; } else { scale(); }
  }

  function zoom(factor, at) { show(from + share * at * (1 - factor), share * factor); }

  function at(event) {
    var box = picture.getBoundingClientRect();
    var x = (event.clientX - box.left) / box.width * picture.viewBox.baseVal.width;
    return (x - left) / width;
  }

  var tools = document.createElement('div'), output = document.createElement('output');
  tools.className = 'tools';
  [['+', 'enlarge', function () { zoom(0.5, 0.5); }], ['−', 'reduce', function () { zoom(2, 0.5); }],
   ['all', 'the whole timeline', function () { show(0, 1); }]].forEach(function (it) {
    var button = document.createElement('button');
    button.type = 'button'; button.textContent = it[0]; button.title = it[1]; button.onclick = it[2];
    tools.appendChild(button);
  });
  output.textContent = 'Ctrl and wheel enlarge, dragging moves.';
  tools.appendChild(output);
  picture.parentNode.after(tools);

  plot.addEventListener('mouseover', function (event) {
    var title = event.target.querySelector('title');
    if (title) { output.textContent = title.textContent; }
  });
  picture.addEventListener('wheel', function (event) {
    if (!event.ctrlKey) { return; }
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, Math.min(1, Math.max(0, at(event))));
  }, {passive: false});
  var grabbed = null;
  plot.addEventListener('pointerdown', function (event) { grabbed = {at: at(event), from: from}; });
  window.addEventListener('pointerup', function () { grabbed = null; });
  window.addEventListener('pointermove', function (event) {
    if (grabbed) { show(grabbed.from + (grabbed.at - at(event)) * share, share); }
  });
}());
