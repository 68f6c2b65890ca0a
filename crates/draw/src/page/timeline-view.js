// Drawing of a timeline on a canvas: only the lanes and operations that can be seen, short ones joined in each pixel.
(function () {
  'use strict';
  const ROW = 19, BLOCK = 14, HEADING = 24, AXIS = 24, LAUNCH = 20;

  /** Returns the rows of some lanes: a heading for each PE, then its units. */
  cubeyard.timelineRows = function (lanes) {
    const rows = [];
    let y = 0, pe = null;
    lanes.forEach(function (lane) {
      if (lane.pe !== pe) {
        pe = lane.pe;
        rows.push({y: y, height: HEADING, text: pe});
        y += HEADING;
      }
      rows.push({y: y, height: ROW, lane: lane});
      y += ROW;
    });
    return {rows: rows, height: y};
  };

  /** Paints onto one canvas. `colours` has the colour of each kind, and of ink, lines and ground. */
  function Painter(canvas, data, colours) {
    this.pen = canvas.getContext('2d');
    this.data = data;
    this.colours = colours;
  }

  Painter.prototype.x = function (ps) { return this.left + (ps - this.from) * this.scale; };

  Painter.prototype.text = function (text, x, y, style, most) {
    this.pen.fillStyle = style;
    this.pen.fillText(text, x, y, most);
  };

  Painter.prototype.block = function (x, width, y, share, kind) {
    const height = Math.max(2, BLOCK * Math.min(1, share)), left = Math.max(x, this.left);
    const right = Math.min(x + width, this.width);
    this.pen.fillStyle = this.colours.kinds[kind];
    if (right > left) { this.pen.fillRect(left, y + BLOCK - height, right - left, height); }
  };

  /** Writes a name into its block, if there is room. */
  Painter.prototype.label = function (text, x, width, y, kind) {
    const left = Math.max(x, this.left) + 4, room = Math.min(x + width, this.width) - left - 4;
    if (36 > room) { return; }
    const shown = text.slice(0, Math.floor(room / 6.2));
    this.text(shown, left, y + 11, this.colours.onKinds[kind]);
  };

  /** Draws the operations of a lane between `from` and `to`. */
  Painter.prototype.lane = function (lane, y) {
    const data = this.data, pixel = 1 / this.scale, self = this;
    let bin = -1, busy = 0, longest = 0, kind = 0;
    function flush() {
      if (bin >= 0) { self.block(bin, 1, y, busy / pixel, kind); }
      bin = -1; busy = 0; longest = -1;
    }
    for (let at = cubeyard.firstAfter(data, lane, this.from); at < lane.to; at += 1) {
      const start = data.start[at], end = data.end[at], length = end - start, work = length - data.idle[at];
      if (start > this.to) { break; }
      const x = this.x(start);
      if (length * this.scale >= 1.5) {
        flush();
        this.block(x, length * this.scale - (length * this.scale > 4 ? 0.7 : 0), y, work / length, data.kind[at]);
        if (work / length > 0.9) { this.label(data.names[data.name[at]], x, length * this.scale, y, data.kind[at]); }
      } else {
        const place = Math.floor(x);
        if (place !== bin) { flush(); bin = place; }
        busy += work;
        if (length > longest) { longest = length; kind = data.kind[at]; }
      }
    }
    flush();
  };

  Painter.prototype.axis = function (height) {
    const self = this, pen = this.pen;
    cubeyard.instants(this.from, this.to, this.width - this.left).forEach(function (tick) {
      const x = self.x(tick.ps);
      pen.fillStyle = self.colours.line;
      pen.fillRect(x, AXIS - 6, 1, height - AXIS + 6);
      pen.textAlign = 'center';
      self.text(tick.text, Math.min(Math.max(x, self.left + 12), self.width - 22), 12, self.colours.soft);
    });
    pen.textAlign = 'left';
  };

  /** Draws the launches with their names, in one band. */
  Painter.prototype.launches = function (y) {
    const self = this;
    this.data.launches.forEach(function (launch) {
      const left = Math.max(self.x(launch.start), self.left), right = Math.min(self.x(launch.end), self.width);
      if (left >= right) { return; }
      self.pen.fillStyle = self.colours.track;
      self.pen.fillRect(left, y, right - left - 1, LAUNCH - 4);
      self.pen.fillStyle = self.colours.soft;
      self.pen.fillRect(left, y, 1, LAUNCH - 4);
      if (right - left > 30) {
        self.text(launch.name.slice(0, Math.floor((right - left - 8) / 6.2)), left + 5, y + 12, self.colours.ink);
      }
    });
    this.text('launches', 8, y + 12, this.colours.soft);
  };

  /** Height of what stays above the lanes: axis, launches and critical path. */
  cubeyard.timelineHead = AXIS + LAUNCH + ROW + 4;

  /** Draws a view: range of time, rows, and how far they are scrolled. */
  Painter.prototype.draw = function (view) {
    const pen = this.pen, canvas = pen.canvas, ratio = window.devicePixelRatio || 1, self = this;
    this.left = view.left; this.width = view.width; this.from = view.from; this.to = view.to;
    this.scale = (view.width - view.left) / (view.to - view.from);
    canvas.width = Math.round(view.width * ratio);
    canvas.height = Math.round(view.height * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.font = '11.5px system-ui, sans-serif';
    pen.fillStyle = this.colours.panel;
    pen.fillRect(0, 0, view.width, view.height);
    this.axis(view.height);
    view.rows.forEach(function (row) { self.row(row, cubeyard.timelineHead + row.y - view.scrolled, view); });
    this.head(view);
  };

  Painter.prototype.row = function (row, y, view) {
    if (y > view.height || cubeyard.timelineHead > y + row.height) { return; }
    if (row.lane) {
      this.lane(row.lane, y);
      this.text(row.lane.unit, 8, y + 11, this.colours.ink, this.left - 14);
    } else {
      this.pen.font = '600 11.5px system-ui, sans-serif';
      this.text(row.text, 8, y + 17, this.colours.ink);
      this.pen.font = '11.5px system-ui, sans-serif';
    }
  };

  /** Draws what stays above the lanes, over what was scrolled below it. */
  Painter.prototype.head = function (view) {
    this.pen.fillStyle = this.colours.panel;
    this.pen.fillRect(0, 0, view.width, cubeyard.timelineHead - 2);
    this.axis(cubeyard.timelineHead - 2);
    this.launches(AXIS);
    if (view.path) {
      this.text('critical path', 8, AXIS + LAUNCH + 11, this.colours.ink, this.left - 14);
      this.lane(view.path, AXIS + LAUNCH);
    }
    this.pen.fillStyle = this.colours.line;
    this.pen.fillRect(0, cubeyard.timelineHead - 2, view.width, 1);
  };

  cubeyard.TimelinePainter = Painter;
  cubeyard.timelinePathTop = AXIS + LAUNCH;
}());
