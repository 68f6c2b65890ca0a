// Controls of a timeline: zoom, movement, choice of PEs, and the operation under the pointer.
(function () {
  'use strict';
  const HEIGHT = 560;

  /** Reads the colours of the page, light or dark; `kinds` are names of CSS variables. */
  function coloursOf(kinds) {
    const css = cubeyard.css;
    const dark = {read: '#ffffff', cpu: css('--panel'), wait: css('--ink')};
    return {
      kinds: kinds.map(function (kind) { return css('--' + kind); }),
      onKinds: kinds.map(function (kind) { return dark[kind] || '#111111'; }),
      ink: css('--ink'), soft: css('--soft'), line: css('--line'), panel: css('--panel'), track: css('--track')
    };
  }

  /** A timeline in a figure. */
  function Timeline(figure, data) {
    this.figure = figure;
    this.data = data;
    this.kinds = figure.dataset.kinds.split(' ');
    this.shown = figure.dataset.shown.split('\t');
    this.path = data.lanes.find(function (lane) { return lane.pe === ''; });
    this.range = new cubeyard.Range(Number(figure.dataset.end), 100);
    this.place = figure.querySelector('.drawn');
    this.canvas = document.createElement('canvas');
    this.spacer = document.createElement('div');
    this.output = document.createElement('output');
    this.tip = document.createElement('div');
    this.tip.className = 'tip';
    this.tip.hidden = true;
    this.place.append(this.canvas, this.spacer);
    figure.append(this.tip);
    this.prepare();
  }

  Timeline.prototype.prepare = function () {
    const self = this, redraw = function () { self.draw(); };
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute('role', 'img');
    this.canvas.setAttribute('aria-label', 'Timeline. Arrow keys move, + and - zoom, 0 shows everything.');
    this.figure.querySelector('.drawn').after(this.tools());
    this.figure.classList.add('live');
    this.recolour();
    this.choose('some');
    this.place.addEventListener('scroll', redraw);
    new ResizeObserver(redraw).observe(this.place);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', function () { self.recolour(); self.draw(); });
    cubeyard.listen(this.canvas, this);
    this.canvas.addEventListener('pointerdown', function (event) { self.tell(event); });
    const hide = function () { self.tip.hidden = true; };
    this.canvas.addEventListener('pointerleave', function (event) {
      if (event.pointerType === 'mouse') { hide(); }
    });
    ['scroll', 'wheel', 'keydown'].forEach(function (name) { addEventListener(name, hide, {passive: true}); });
  };

  Timeline.prototype.recolour = function () {
    this.painter = new cubeyard.TimelinePainter(this.canvas, this.data, coloursOf(this.kinds));
  };

  /** Returns the toolbar: zoom, movement, and the choice of PEs. */
  Timeline.prototype.tools = function () {
    this.output.textContent = 'Ctrl and wheel zoom, dragging moves.';
    return cubeyard.zoomTools(this, [this.choice(), this.output]);
  };

  Timeline.prototype.choice = function () {
    const label = document.createElement('label'), select = document.createElement('select'), self = this;
    const pes = Array.from(new Set(this.data.lanes.map(function (lane) { return lane.pe; }))).filter(Boolean);
    const options = [['some', this.shown.length + ' of ' + pes.length + ' PEs'], ['all', 'all PEs']];
    options.concat(pes.map(function (pe) { return [pe, pe]; })).forEach(function (it) {
      const option = document.createElement('option');
      option.value = it[0];
      option.textContent = it[1];
      select.append(option);
    });
    select.addEventListener('change', function () { self.choose(select.value); });
    label.append('Show ', select);
    return label;
  };

  /** Shows the lanes of one PE, of some or of all. */
  Timeline.prototype.choose = function (which) {
    const shown = this.shown, chosen = this.data.lanes.filter(function (lane) {
      if (lane.pe === '') { return false; }
      return which === 'all' || lane.pe === which || (which === 'some' && shown.includes(lane.pe));
    });
    const made = cubeyard.timelineRows(chosen), whole = cubeyard.timelineHead + made.height + 6;
    this.rows = made.rows;
    this.height = Math.min(HEIGHT, whole);
    this.place.style.height = this.height + 'px';
    this.spacer.style.height = whole - this.height + 'px';
    this.place.scrollTop = 0;
    this.draw();
  };

  /** Draws before the next frame, once, however often it is asked for. */
  Timeline.prototype.draw = function () {
    const self = this;
    if (this.waiting) { return; }
    this.waiting = true;
    requestAnimationFrame(function () {
      self.waiting = false;
      self.width = self.place.clientWidth;
      self.left = Math.min(132, self.width * 0.3);
      self.canvas.style.width = self.width + 'px';
      self.canvas.style.height = self.height + 'px';
      self.painter.draw({
        from: self.range.from, to: self.range.to, rows: self.rows, path: self.path, left: self.left,
        width: self.width, height: self.height, scrolled: self.place.scrollTop
      });
      self.figure.dataset.from = self.range.from;
      self.figure.dataset.to = self.range.to;
    });
  };

  Timeline.prototype.all = function () { this.range.all(); this.draw(); };
  Timeline.prototype.zoom = function (factor, share) { this.range.zoom(factor, share); this.draw(); };
  Timeline.prototype.move = function (share) { this.range.move(share); this.draw(); };

  Timeline.prototype.arrow = function (right, up) {
    this.place.scrollTop -= 40 * up;
    this.move(0.1 * right);
  };

  /** Returns the position of an event as a share of the plot. */
  Timeline.prototype.share = function (event) {
    const box = this.canvas.getBoundingClientRect();
    return {x: (event.clientX - box.left - this.left) / (this.width - this.left), y: 0};
  };

  Timeline.prototype.laneAt = function (event) {
    const y = event.clientY - this.canvas.getBoundingClientRect().top;
    if (cubeyard.timelineHead > y) { return y >= cubeyard.timelinePathTop ? this.path : undefined; }
    const at = y - cubeyard.timelineHead + this.place.scrollTop;
    const row = this.rows.find(function (it) { return at >= it.y && it.y + it.height > at; });
    return row && row.lane;
  };

  /** Returns the lane and the operation under the pointer; undefined if there is none. */
  Timeline.prototype.under = function (event) {
    const lane = this.laneAt(event), length = this.range.to - this.range.from;
    const instant = this.range.at(this.share(event).x);
    const at = lane ? cubeyard.operationAt(this.data, lane, instant, 2 * length / this.width) : -1;
    return at === -1 ? undefined : {lane: lane, at: at};
  };

  /** Describes an operation of a lane in one line. */
  Timeline.prototype.describe = function (lane, at) {
    const data = this.data;
    const took = data.end[at] - data.start[at], launch = data.launches[data.launch[at] - 1];
    const text = function (ps) { return cubeyard.text(ps, 'ps'); };
    const busy = data.idle[at] > 0.005 * took ? ', busy ' + Math.round(100 * (1 - data.idle[at] / took)) + ' %' : '';
    return data.names[data.name[at]] + ': ' + text(data.start[at]) + ' to ' + text(data.end[at]) + ', ' + text(took) +
      busy + (launch ? ' · ' + launch.name : '') + (lane.pe ? ' · ' + lane.pe : '');
  };

  /** Describes an operation below the toolbar, and beside the pointer with its source line and cause. */
  Timeline.prototype.tell = function (event) {
    const found = this.under(event), data = this.data;
    this.tip.hidden = !found;
    if (!found) { return; }
    const line = data.names[data.line[found.at]], why = data.names[data.why[found.at]];
    const text = this.describe(found.lane, found.at);
    this.output.textContent = text;
    this.tip.replaceChildren.apply(this.tip, [
      ['what', text], ['line', line], ['why', why && 'Not earlier: ' + why]
    ].filter(function (it) { return it[1]; }).map(function (it) {
      const row = document.createElement('div');
      row.className = it[0];
      row.textContent = it[1];
      return row;
    }));
    this.showTip(event.clientX, event.clientY);
  };

  /** Places the description beside the pointer, within the window. */
  Timeline.prototype.showTip = function (x, y) {
    const box = this.tip.getBoundingClientRect(), gap = 14;
    const left = x + gap + box.width > innerWidth ? x - gap - box.width : x + gap;
    const top = y + gap + box.height > innerHeight ? y - gap - box.height : y + gap;
    this.tip.style.left = Math.max(4, Math.min(left, innerWidth - box.width - 4)) + 'px';
    this.tip.style.top = Math.max(4, top) + 'px';
  };

  document.querySelectorAll('figure.operations').forEach(function (figure) {
    cubeyard.timelineData(figure).then(function (data) { figure.timeline = new Timeline(figure, data); });
  });
}());
