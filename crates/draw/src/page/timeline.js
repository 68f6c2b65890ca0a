// Controls of a timeline: zoom, movement, choice of PEs, and the operation under the pointer.
(function () {
  'use strict';
  const HEIGHT = 560;

  function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

  /** Reads the colours of the page, light or dark; `kinds` are names of CSS variables. */
  function coloursOf(kinds) {
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
    this.end = Math.max(1, Number(figure.dataset.end));
    this.shown = figure.dataset.shown.split('\t');
    this.path = data.lanes.find(function (lane) { return lane.pe === ''; });
    this.from = 0;
    this.to = this.end;
    this.place = figure.querySelector('.drawn');
    this.canvas = document.createElement('canvas');
    this.spacer = document.createElement('div');
    this.output = document.createElement('output');
    this.place.append(this.canvas, this.spacer);
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
    this.listen();
  };

  Timeline.prototype.recolour = function () {
    this.painter = new cubeyard.TimelinePainter(this.canvas, this.data, coloursOf(this.kinds));
  };

  /** Returns the toolbar: zoom, movement, and the choice of PEs. */
  Timeline.prototype.tools = function () {
    const tools = document.createElement('div'), self = this;
    tools.className = 'tools';
    [['+', 'Zoom in', function () { self.zoom(0.5, 0.5); }], ['−', 'Zoom out', function () { self.zoom(2, 0.5); }],
     ['←', 'Move left', function () { self.move(-0.25); }], ['→', 'Move right', function () { self.move(0.25); }],
     ['all', 'Show everything', function () { self.show(0, self.end); }]].forEach(function (it) {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = it[0];
      button.title = it[1];
      button.setAttribute('aria-label', it[1]);
      button.addEventListener('click', it[2]);
      tools.append(button);
    });
    this.output.textContent = 'Ctrl and wheel zoom, dragging moves.';
    tools.append(this.choice(), this.output);
    return tools;
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
        from: self.from, to: self.to, rows: self.rows, path: self.path, left: self.left,
        width: self.width, height: self.height, scrolled: self.place.scrollTop
      });
      self.figure.dataset.from = self.from;
      self.figure.dataset.to = self.to;
    });
  };

  Timeline.prototype.show = function (from, to) {
    const length = Math.min(this.end, Math.max(Math.min(100, this.end), to - from));
    this.from = Math.min(this.end - length, Math.max(0, from));
    this.to = this.from + length;
    this.draw();
  };

  Timeline.prototype.zoom = function (factor, share) {
    const length = this.to - this.from, at = this.from + share * length;
    this.show(at - share * length * factor, at + (1 - share) * length * factor);
  };

  Timeline.prototype.move = function (share) {
    const by = share * (this.to - this.from);
    this.show(this.from + by, this.to + by);
  };

  /** Returns the position of an event as a share of the plot. */
  Timeline.prototype.shareAt = function (event) {
    const box = this.canvas.getBoundingClientRect();
    return (event.clientX - box.left - this.left) / (this.width - this.left);
  };

  Timeline.prototype.laneAt = function (event) {
    const y = event.clientY - this.canvas.getBoundingClientRect().top;
    if (cubeyard.timelineHead > y) { return y >= cubeyard.timelinePathTop ? this.path : undefined; }
    const at = y - cubeyard.timelineHead + this.place.scrollTop;
    const row = this.rows.find(function (it) { return at >= it.y && it.y + it.height > at; });
    return row && row.lane;
  };

  /** Describes the operation under the pointer. */
  Timeline.prototype.describe = function (event) {
    const lane = this.laneAt(event), length = this.to - this.from, data = this.data;
    const instant = this.from + this.shareAt(event) * length;
    const at = lane ? cubeyard.operationAt(data, lane, instant, 2 * length / this.width) : -1;
    if (at === -1) { return ''; }
    const took = data.end[at] - data.start[at], launch = data.launches[data.launch[at] - 1];
    const text = function (ps) { return cubeyard.text(ps, 'ps'); };
    const busy = data.idle[at] > 0.005 * took ? ', busy ' + Math.round(100 * (1 - data.idle[at] / took)) + ' %' : '';
    return data.names[data.name[at]] + ': ' + text(data.start[at]) + ' to ' + text(data.end[at]) + ', ' + text(took) +
      busy + (launch ? ' · ' + launch.name : '') + (lane.pe ? ' · ' + lane.pe : '');
  };

  const KEYS = {
    ArrowLeft: function (it) { it.move(-0.1); },
    ArrowRight: function (it) { it.move(0.1); },
    ArrowUp: function (it) { it.place.scrollTop -= 40; },
    ArrowDown: function (it) { it.place.scrollTop += 40; },
    '+': function (it) { it.zoom(0.5, 0.5); },
    '=': function (it) { it.zoom(0.5, 0.5); },
    '-': function (it) { it.zoom(2, 0.5); },
    0: function (it) { it.show(0, it.end); }
  };

  Timeline.prototype.listen = function () {
    const self = this, canvas = this.canvas;
    let grabbed = null;
    canvas.addEventListener('keydown', function (event) {
      if (!KEYS[event.key] || event.ctrlKey || event.metaKey) { return; }
      event.preventDefault();
      KEYS[event.key](self);
    });
    this.place.addEventListener('wheel', function (event) {
      const across = event.shiftKey ? event.deltaY : event.deltaX;
      if (event.ctrlKey) {
        self.zoom(event.deltaY > 0 ? 1.25 : 0.8, Math.min(1, Math.max(0, self.shareAt(event))));
      } else if (across) {
        self.move(across / self.width);
      } else { return; }
      event.preventDefault();
    }, {passive: false});
    canvas.addEventListener('pointerdown', function (event) {
      grabbed = {share: self.shareAt(event), from: self.from};
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointerup', function () { grabbed = null; });
    canvas.addEventListener('pointercancel', function () { grabbed = null; });
    canvas.addEventListener('pointermove', function (event) {
      const length = self.to - self.from;
      if (grabbed) {
        const from = grabbed.from + (grabbed.share - self.shareAt(event)) * length;
        self.show(from, from + length);
      }
      const text = self.describe(event);
      canvas.title = text;
      if (text) { self.output.textContent = text; }
    });
  };

  document.querySelectorAll('figure.operations').forEach(function (figure) {
    cubeyard.timelineData(figure).then(function (data) { figure.timeline = new Timeline(figure, data); });
  });
}());
