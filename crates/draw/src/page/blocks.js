// Controls of block maps side by side: they show the same events and addresses, and mark the same block.
(function () {
  'use strict';
  const HEIGHT = 400, LEAST_EVENTS = 10, LEAST_BYTES = 512;
  const HELP = 'Ctrl and wheel zoom, dragging moves.';
  const KEYS = 'Arrow keys go from block to block, with Shift they move; + and - zoom, 0 shows everything.';

  /** The maps of a figure. `all` has the data of each. */
  function Maps(figure, all) {
    const places = Array.from(figure.querySelectorAll('.map')), self = this;
    this.figure = figure;
    this.total = Number(figure.dataset.events);
    this.events = new cubeyard.Range(this.total, LEAST_EVENTS);
    this.addresses = new cubeyard.Range(Number(figure.dataset.height), LEAST_BYTES);
    this.chosen = -1;
    this.output = document.createElement('output');
    this.maps = all.map(function (data, at) { return self.mapOf(data, places[at]); });
    this.prepare();
  }

  Maps.prototype.mapOf = function (data, place) {
    const canvas = document.createElement('canvas'), policy = place.dataset.policy;
    canvas.tabIndex = 0;
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', 'Blocks of ' + policy + ' by address over events. ' + KEYS);
    place.append(canvas);
    return {place: place, canvas: canvas, data: data, painter: new cubeyard.BlocksPainter(canvas, data)};
  };

  Maps.prototype.prepare = function () {
    const self = this, maps = this.maps;
    this.figure.append(this.tools());
    this.figure.classList.add('live');
    new ResizeObserver(function () { self.draw(); }).observe(this.figure);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', function () {
      maps.forEach(function (map) { map.painter.recolour(); });
      self.draw();
    });
    maps.forEach(function (map) { cubeyard.listen(map.canvas, self.controlsOf(map)); });
    this.draw();
  };

  Maps.prototype.tools = function () {
    const label = document.createElement('label');
    this.which = document.createElement('select');
    ['events and addresses', 'events', 'addresses'].forEach(function (text) { this.which.add(new Option(text, text)); }, this);
    label.append('Zoom ', this.which);
    this.output.textContent = HELP;
    return cubeyard.zoomTools(this, [label, this.output]);
  };

  /** Returns what the pointer and the keys do on one of the maps. */
  Maps.prototype.controlsOf = function (map) {
    const self = this;
    function share(event) {
      const box = map.canvas.getBoundingClientRect();
      return map.painter.share(event.clientX - box.left, event.clientY - box.top);
    }
    return {
      zoom: function (factor, x, y) { self.zoom(factor, x, y); },
      move: function (x, y) { self.move(x, y); },
      all: function () { self.all(); },
      arrow: function (right, up, event) {
        if (event.shiftKey) { self.move(0.1 * right, 0.1 * up); } else { self.go(map, right, up); }
      },
      share: share,
      tell: function (event) { self.choose(map, map.painter.blockAt(share(event))); }
    };
  };

  Maps.prototype.zoom = function (factor, x, y) {
    if (this.which.value !== 'addresses') { this.events.zoom(factor, x); }
    if (this.which.value !== 'events') { this.addresses.zoom(factor, y); }
    this.draw();
  };

  Maps.prototype.move = function (x, y) {
    this.events.move(x);
    this.addresses.move(y);
    this.draw();
  };

  Maps.prototype.all = function () {
    this.events.all();
    this.addresses.all();
    this.draw();
  };

  /** Chooses the block beside the chosen one, or the largest that can be seen, and shows it. */
  Maps.prototype.go = function (map, right, up) {
    const data = map.data, now = cubeyard.blockOfEvent(data, this.chosen);
    let at = now === -1 ? cubeyard.largestBlock(data, this.events, this.addresses)
      : right ? cubeyard.nextBlock(data, now, right) : cubeyard.blockBeside(data, now, up);
    if (at === -1) { at = now; }
    if (at === -1) { return; }
    this.events.reveal(data.from[at], data.to[at]);
    this.addresses.reveal(data.start[at], data.start[at] + data.size[at]);
    this.choose(map, at);
    this.draw();
  };

  /** Marks a block of a map in all maps, and describes it. */
  Maps.prototype.choose = function (map, at) {
    const chosen = at === -1 ? -1 : map.data.from[at], text = at === -1 ? '' : this.describe(map.data, at);
    map.canvas.title = text;
    if (chosen === this.chosen) { return; }
    this.chosen = chosen;
    this.output.textContent = text || HELP;
    this.draw();
  };

  Maps.prototype.describe = function (data, at) {
    const number = function (it) { return it.toLocaleString('en'); };
    const to = data.to[at] === this.total ? 'the end' : number(data.to[at]);
    return data.names[data.name[at]].text + ': ' + cubeyard.text(data.size[at], 'bytes') + ', events ' +
      number(data.from[at]) + ' to ' + to;
  };

  /** Draws before the next frame, once, however often it is asked for. */
  Maps.prototype.draw = function () {
    const self = this;
    if (this.waiting) { return; }
    this.waiting = true;
    requestAnimationFrame(function () {
      self.waiting = false;
      self.maps.forEach(function (map) { self.drawMap(map); });
      Object.assign(self.figure.dataset, {
        from: self.events.from, to: self.events.to, low: self.addresses.from, high: self.addresses.to
      });
    });
  };

  Maps.prototype.drawMap = function (map) {
    const width = map.place.clientWidth;
    map.canvas.style.width = width + 'px';
    map.canvas.style.height = HEIGHT + 'px';
    map.painter.draw({events: this.events, addresses: this.addresses, width: width, height: HEIGHT, chosen: this.chosen});
  };

  document.querySelectorAll('figure.blocks').forEach(function (figure) {
    const all = Array.from(figure.querySelectorAll('.map')).map(cubeyard.blocksData);
    Promise.all(all).then(function (data) { figure.maps = new Maps(figure, data); });
  });
}());
