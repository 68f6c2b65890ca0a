// Drawing of a block map: each pixel has the number of its block, so that what is drawn is what is told.
(function () {
  'use strict';
  const LEFT = 78, TOP = 8, BOTTOM = 24, RIGHT = 10, EDGED = 4;
  const UNITS = [[1099511627776, 'TiB'], [1073741824, 'GiB'], [1048576, 'MiB'], [1024, 'KiB'], [1, 'B']];

  /** Returns red, green and blue of a colour such as `#d55e00`. */
  function partsOf(colour) {
    return [1, 3, 5].map(function (at) { return parseInt(colour.slice(at, at + 2), 16); });
  }

  /** Returns a pixel of an image: a share of a colour over another. */
  function pixelOf(colour, ground, share) {
    const below = partsOf(ground);
    const mixed = partsOf(colour).map(function (it, at) { return Math.round(share * it + (1 - share) * below[at]); });
    return new Uint32Array(new Uint8ClampedArray(mixed.concat(255)).buffer)[0];
  }

  function bytesText(bytes, step, most) {
    const unit = UNITS.find(function (it) { return most >= it[0]; }) || UNITS[4];
    const decimals = Math.max(0, Math.ceil(Math.log10(unit[0] / step)));
    return (bytes / unit[0]).toFixed(Math.min(decimals, 6)) + ' ' + unit[1];
  }

  /** Paints the blocks of one map onto a canvas. */
  function Painter(canvas, data) {
    this.pen = canvas.getContext('2d');
    this.data = data;
    this.numbers = new Int32Array(0);
    this.recolour();
  }

  /** Reads the colours of the page, light or dark. */
  Painter.prototype.recolour = function () {
    const ground = cubeyard.css('--panel'), names = this.data.names;
    const table = function (share) { return names.map(function (name) { return pixelOf(name.colour, ground, share); }); };
    this.colours = {ink: cubeyard.css('--ink'), soft: cubeyard.css('--soft'), line: cubeyard.css('--line'), panel: ground};
    this.ground = pixelOf(ground, ground, 1);
    this.inside = Uint32Array.from(table(0.85));
    this.edge = Uint32Array.from(table(0.4));
  };

  /** Sets the place of the plot within a canvas of some size, and its scale. */
  Painter.prototype.place = function (view) {
    const ratio = window.devicePixelRatio || 1, canvas = this.pen.canvas;
    canvas.width = Math.round(view.width * ratio);
    canvas.height = Math.round(view.height * ratio);
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.ratio = ratio;
    this.view = view;
    this.columns = Math.max(1, Math.round((view.width - LEFT - RIGHT) * ratio));
    this.rows = Math.max(1, Math.round((view.height - TOP - BOTTOM) * ratio));
    this.across = this.columns / (view.events.to - view.events.from);
    this.up = this.rows / (view.addresses.to - view.addresses.from);
  };

  /** Returns the pixels of a block within the plot, at least one in each direction; null if it cannot be seen. */
  Painter.prototype.box = function (at) {
    const data = this.data, view = this.view, low = view.addresses.from, first = view.events.from;
    const left = (data.from[at] - first) * this.across, right = (data.to[at] - first) * this.across;
    const bottom = (data.start[at] - low) * this.up, top = bottom + data.size[at] * this.up;
    if (left >= this.columns || 0 >= right || bottom >= this.rows || 0 >= top) { return null; }
    const x = Math.max(0, Math.floor(left)), y = Math.max(0, Math.floor(bottom));
    const until = Math.min(this.columns, Math.max(x + 1, Math.floor(right)));
    const above = Math.min(this.rows, Math.max(y + 1, Math.floor(top)));
    return {x: x, y: this.rows - above, width: until - x, height: above - y};
  };

  /** Numbers every pixel by its block from 1 on, below zero on the upper and left edge of a block. */
  Painter.prototype.number = function () {
    const columns = this.columns, size = columns * this.rows;
    if (this.numbers.length === size) { this.numbers.fill(0); } else { this.numbers = new Int32Array(size); }
    for (let at = 0; at < this.data.count; at += 1) {
      const box = this.box(at);
      if (box) { this.numberBox(at + 1, box); }
    }
  };

  Painter.prototype.numberBox = function (number, box) {
    const edged = box.width >= EDGED && box.height >= EDGED;
    for (let row = 0; row < box.height; row += 1) {
      const start = (box.y + row) * this.columns + box.x;
      this.numbers.fill(edged && row === 0 ? -number : number, start, start + box.width);
      if (edged) { this.numbers[start] = -number; }
    }
  };

  /** Colours the numbered pixels. */
  Painter.prototype.fill = function () {
    const image = this.pen.createImageData(this.columns, this.rows), pixels = new Uint32Array(image.data.buffer);
    const name = this.data.name;
    for (let at = 0; at < pixels.length; at += 1) {
      const number = this.numbers[at];
      pixels[at] = number === 0 ? this.ground : number > 0 ? this.inside[name[number - 1]] : this.edge[name[-number - 1]];
    }
    this.pen.putImageData(image, Math.round(LEFT * this.ratio), Math.round(TOP * this.ratio));
  };

  Painter.prototype.text = function (text, x, y, align) {
    this.pen.textAlign = align;
    this.pen.fillStyle = this.colours.soft;
    this.pen.fillText(text, x, y);
  };

  Painter.prototype.axes = function () {
    const view = this.view, self = this, right = view.width - RIGHT, bottom = view.height - BOTTOM;
    const events = cubeyard.roundNumbers(view.events.from, view.events.to, Math.max(2, (right - LEFT) / 90), 10);
    events.numbers.filter(Number.isInteger).forEach(function (it) {
      const x = LEFT + (it - view.events.from) * self.across / self.ratio;
      self.text(it.toLocaleString('en'), Math.min(Math.max(x, LEFT + 6), right - 14), bottom + 16, 'center');
    });
    this.text('events', LEFT - 6, bottom + 16, 'right');
    const bytes = cubeyard.roundNumbers(view.addresses.from, view.addresses.to, 6, 2);
    bytes.numbers.forEach(function (it) {
      const y = bottom - (it - view.addresses.from) * self.up / self.ratio;
      self.text(bytesText(it, bytes.step, view.addresses.to), LEFT - 6, Math.max(y + 4, TOP + 8), 'right');
    });
    this.pen.strokeStyle = this.colours.line;
    this.pen.strokeRect(LEFT - 0.5, TOP - 0.5, right - LEFT + 1, bottom - TOP + 1);
  };

  /** Draws a frame around the chosen block. */
  Painter.prototype.frame = function () {
    const at = cubeyard.blockOfEvent(this.data, this.view.chosen), box = at === -1 ? null : this.box(at), ratio = this.ratio;
    if (!box) { return; }
    this.pen.strokeStyle = this.colours.ink;
    this.pen.lineWidth = 2;
    this.pen.strokeRect(LEFT + box.x / ratio - 1, TOP + box.y / ratio - 1, box.width / ratio + 2, box.height / ratio + 2);
    this.pen.lineWidth = 1;
  };

  /** Draws a view: ranges of events and addresses, size of the canvas, and the event that allocated the chosen block. */
  Painter.prototype.draw = function (view) {
    this.place(view);
    this.pen.font = '11.5px system-ui, sans-serif';
    this.pen.fillStyle = this.colours.panel;
    this.pen.fillRect(0, 0, view.width, view.height);
    this.number();
    this.fill();
    this.axes();
    this.frame();
  };

  /** Returns the position of a point of the canvas as shares of the plot, from the lower left. */
  Painter.prototype.share = function (x, y) {
    const view = this.view;
    return {x: (x - LEFT) / (view.width - LEFT - RIGHT), y: 1 - (y - TOP) / (view.height - TOP - BOTTOM)};
  };

  /** Returns the block that is drawn at shares of the plot; -1 if there is none. */
  Painter.prototype.blockAt = function (share) {
    const x = Math.floor(share.x * this.columns), y = Math.floor((1 - share.y) * this.rows);
    if (0 > x || x >= this.columns || 0 > y || y >= this.rows) { return -1; }
    return Math.abs(this.numbers[y * this.columns + x]) - 1;
  };

  cubeyard.BlocksPainter = Painter;
}());
