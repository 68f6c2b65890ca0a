// Activity over time on a canvas: lanes of intervals, and quantities below them on the same axis.
(function () {
  'use strict';
  const AXIS = 24, ROW = 24, BLOCK = 18, LEVEL = 130, GAP = 18, AREA = '#009e73';

  /** Reads names with the number of their items, one in each line. */
  function countedOf(buffer) {
    let from = 0;
    return cubeyard.lines(buffer).map(function (line) {
      const parts = line.split('\t'), item = {name: parts[0], from: from, to: from + Number(parts[1])};
      from = item.to;
      return item;
    });
  }

  /** Adds up differences within each item. */
  function summed(items, deltas) {
    const times = new Float64Array(deltas.length);
    items.forEach(function (item) {
      let now = 0;
      for (let at = item.from; at < item.to; at += 1) { now += deltas[at]; times[at] = now; }
    });
    return times;
  }

  /** Returns the colour of text on a colour such as `#0072b2`: white on dark ones. */
  function onColour(colour) {
    const part = function (at) { return parseInt(colour.slice(at, at + 2), 16); };
    return 95 > 0.3 * part(1) + 0.59 * part(3) + 0.11 * part(5) ? '#ffffff' : '#111111';
  }

  function dataOf(figure) {
    const parts = ['lanes', 'names', 'intervals', 'levels', 'values'].map(function (name) {
      return cubeyard.unpack(figure.querySelector('.packed.' + name));
    });
    return Promise.all(parts).then(function (buffers) {
      const lanes = countedOf(buffers[0]), levels = countedOf(buffers[3]);
      const last = function (items) { return items.length ? items[items.length - 1].to : 0; };
      const columns = cubeyard.columns(buffers[2], 4, last(lanes)), values = cubeyard.columns(buffers[4], 2, last(levels));
      return {
        lanes: lanes, names: cubeyard.lines(buffers[1]), start: summed(lanes, columns[0]), length: columns[1],
        kind: columns[2], name: columns[3], levels: levels, time: summed(levels, values[0]), value: values[1]
      };
    });
  }

  /** Returns the last place of an item at which a column is not above a number; the first if there is none. */
  function placeOf(column, item, number) {
    let low = item.from, high = item.to;
    while (high > low) {
      const middle = (low + high) >> 1;
      if (column[middle] > number) { high = middle; } else { low = middle + 1; }
    }
    return Math.max(item.from, low - 1);
  }

  /** Activity in a figure. */
  function Activity(figure, data) {
    this.figure = figure;
    this.data = data;
    this.colours = figure.dataset.colours.split(' ');
    this.range = new cubeyard.Range(Number(figure.dataset.end), 1000);
    this.place = figure.querySelector('.drawn');
    this.canvas = document.createElement('canvas');
    this.output = document.createElement('output');
    this.height = AXIS + ROW * data.lanes.length + (LEVEL + GAP) * data.levels.length + 6;
    this.place.append(this.canvas);
    this.prepare();
  }

  Activity.prototype.prepare = function () {
    const self = this, redraw = function () { self.draw(); };
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute('role', 'img');
    this.canvas.setAttribute('aria-label', 'Timeline. Arrow keys move, + and - zoom, 0 shows everything.');
    this.output.textContent = 'Ctrl and wheel zoom, dragging moves.';
    this.place.after(cubeyard.zoomTools(this, [this.output]));
    this.figure.classList.add('live');
    new ResizeObserver(redraw).observe(this.place);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
    cubeyard.listen(this.canvas, this);
    redraw();
  };

  Activity.prototype.x = function (ps) { return this.left + (ps - this.range.from) * this.scale; };

  Activity.prototype.draw = function () {
    const self = this;
    if (this.waiting) { return; }
    this.waiting = true;
    requestAnimationFrame(function () { self.waiting = false; self.paint(); });
  };

  Activity.prototype.paint = function () {
    const ratio = window.devicePixelRatio || 1, canvas = this.canvas, self = this;
    this.width = this.place.clientWidth;
    this.left = Math.min(132, this.width * 0.3);
    this.scale = (this.width - this.left) / (this.range.to - this.range.from);
    canvas.style.width = this.width + 'px';
    canvas.style.height = this.height + 'px';
    canvas.width = Math.round(this.width * ratio);
    canvas.height = Math.round(this.height * ratio);
    this.pen = canvas.getContext('2d');
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.pen.font = '11.5px system-ui, sans-serif';
    this.axis();
    this.data.lanes.forEach(function (lane, place) { self.lane(lane, AXIS + ROW * place); });
    this.data.levels.forEach(function (level, place) { self.level(level, self.levelTop(place)); });
  };

  Activity.prototype.levelTop = function (place) {
    return AXIS + ROW * this.data.lanes.length + GAP + (LEVEL + GAP) * place;
  };

  Activity.prototype.text = function (text, x, y, colour, most) {
    this.pen.fillStyle = colour;
    this.pen.fillText(text, x, y, most);
  };

  Activity.prototype.axis = function () {
    const self = this, pen = this.pen;
    cubeyard.instants(this.range.from, this.range.to, this.width - this.left).forEach(function (tick) {
      const x = self.x(tick.ps);
      pen.fillStyle = cubeyard.css('--line');
      pen.fillRect(x, AXIS - 6, 1, self.height - AXIS);
      pen.textAlign = 'center';
      self.text(tick.text, Math.min(Math.max(x, self.left + 12), self.width - 22), 12, cubeyard.css('--soft'));
    });
    pen.textAlign = 'left';
  };

  /** Draws the intervals that can be seen; short ones are joined in each pixel. */
  Activity.prototype.lane = function (lane, y) {
    const data = this.data, pen = this.pen;
    let pixel = -1;
    this.text(lane.name, 8, y + 13, cubeyard.css('--ink'), this.left - 14);
    for (let at = placeOf(data.start, lane, this.range.from); at < lane.to; at += 1) {
      const start = data.start[at], x = Math.max(this.x(start), this.left), width = this.x(start + data.length[at]) - x;
      if (start > this.range.to) { break; }
      if (1 > width && Math.floor(x) === pixel) { continue; }
      if (0 > width) { continue; }
      pixel = Math.floor(x);
      pen.fillStyle = this.colours[data.kind[at]];
      pen.fillRect(x, y, Math.max(1, Math.min(width, this.width - x) - (width > 4 ? 0.7 : 0)), BLOCK);
      const room = Math.min(width, this.width - x) - 8;
      if (room > 36) { this.text(data.names[data.name[at]].slice(0, Math.floor(room / 6.2)), x + 4, y + 13, onColour(pen.fillStyle)); }
    }
  };

  /** Draws a quantity as an area whose top is the highest value of the whole. */
  Activity.prototype.level = function (level, top) {
    const data = this.data, pen = this.pen, bottom = top + LEVEL;
    let most = 1;
    for (let at = level.from; at < level.to; at += 1) { most = Math.max(most, data.value[at]); }
    pen.beginPath();
    pen.moveTo(this.left, bottom);
    let y = bottom;
    for (let at = placeOf(data.time, level, this.range.from); at < level.to && this.range.to >= data.time[at]; at += 1) {
      const x = Math.max(this.left, this.x(data.time[at]));
      pen.lineTo(x, y);
      y = bottom - LEVEL * data.value[at] / most;
      pen.lineTo(x, y);
    }
    pen.lineTo(this.width, y);
    pen.lineTo(this.width, bottom);
    pen.fillStyle = AREA;
    pen.globalAlpha = 0.45;
    pen.fill();
    pen.globalAlpha = 1;
    this.text(level.name, 8, top + 10, cubeyard.css('--ink'), this.left - 14);
    this.text(cubeyard.text(most, 'bytes'), 8, top + 26, cubeyard.css('--soft'), this.left - 14);
  };

  Activity.prototype.all = function () { this.range.all(); this.draw(); };
  Activity.prototype.zoom = function (factor, share) { this.range.zoom(factor, share); this.draw(); };
  Activity.prototype.move = function (share) { this.range.move(share); this.draw(); };
  Activity.prototype.arrow = function (right) { this.move(0.1 * right); };

  /** Returns the position of an event as a share of the plot. */
  Activity.prototype.share = function (event) {
    const box = this.canvas.getBoundingClientRect();
    return {x: (event.clientX - box.left - this.left) / (this.width - this.left), y: 0};
  };

  /** Describes the interval or the quantity under the pointer. */
  Activity.prototype.describe = function (event) {
    const instant = this.range.at(this.share(event).x), data = this.data, text = function (ps) { return cubeyard.text(ps, 'ps'); };
    const y = event.clientY - this.canvas.getBoundingClientRect().top, lane = data.lanes[Math.floor((y - AXIS) / ROW)];
    if (lane && lane.to > lane.from) {
      const at = placeOf(data.start, lane, instant), end = data.start[at] + data.length[at];
      const slack = 2 / this.scale;
      if (instant >= data.start[at] - slack && end + slack >= instant) {
        return data.names[data.name[at]] + ': ' + text(data.start[at]) + ' to ' + text(end) + ', ' + text(data.length[at]);
      }
    }
    const level = data.levels[Math.floor((y - this.levelTop(0)) / (LEVEL + GAP))];
    if (!level || level.to === level.from) { return ''; }
    return level.name + ' at ' + text(instant) + ': ' + cubeyard.text(data.value[placeOf(data.time, level, instant)], 'bytes');
  };

  Activity.prototype.tell = function (event) {
    const text = this.describe(event);
    this.canvas.title = text;
    if (text) { this.output.textContent = text; }
  };

  document.querySelectorAll('figure.activity').forEach(function (figure) {
    dataOf(figure).then(function (data) { figure.activity = new Activity(figure, data); });
  });
}());
