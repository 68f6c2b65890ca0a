// Data of a block map: the blocks in columns, in the order of their allocation, unpacked from the page.
(function () {
  'use strict';
  const COLUMNS = 5;

  /** Returns the sums of differences, of which odd numbers are below zero: 0, -1, 1, -2, 2. */
  function sumsOf(differences) {
    let sum = 0;
    return differences.map(function (it) {
      sum += it % 2 ? -(it + 1) / 2 : it / 2;
      return sum;
    });
  }

  function nameOf(line) {
    const parts = line.split('\t');
    return {colour: parts[0], text: parts[1]};
  }

  /** Returns a promise of the blocks of one map: events of their life, addresses and names. */
  cubeyard.blocksData = function (map) {
    const parts = ['names', 'columns'].map(function (name) { return cubeyard.unpack(map.querySelector('.packed.' + name)); });
    return Promise.all(parts).then(function (buffers) {
      const count = Number(map.dataset.count), columns = cubeyard.columns(buffers[1], COLUMNS, count);
      let now = 0;
      const from = columns[0].map(function (difference) { now += difference; return now; });
      return {
        count: count, names: cubeyard.lines(buffers[0]).map(nameOf), from: from,
        to: columns[1].map(function (life, at) { return from[at] + life; }),
        start: sumsOf(columns[2]), size: columns[3], name: columns[4]
      };
    });
  };

  /** Returns the block that was allocated at an event; -1 if there is none. */
  cubeyard.blockOfEvent = function (data, event) {
    let low = 0, high = data.count;
    while (high > low) {
      const middle = (low + high) >> 1;
      if (data.from[middle] >= event) { high = middle; } else { low = middle + 1; }
    }
    return data.from[low] === event ? low : -1;
  };

  /** Returns the block for which a function returns the least number; -1 if it always returns infinity. */
  function least(data, far) {
    let best = -1, distance = Infinity;
    for (let at = 0; at < data.count; at += 1) {
      const away = far(at);
      if (distance > away) { best = at; distance = away; }
    }
    return best;
  }

  /** Returns the largest block, by bytes and events, that can be seen in ranges of events and addresses. */
  cubeyard.largestBlock = function (data, events, addresses) {
    return least(data, function (at) {
      const top = data.start[at] + data.size[at];
      if (data.from[at] >= events.to || events.from >= data.to[at]) { return Infinity; }
      if (data.start[at] >= addresses.to || addresses.from >= top) { return Infinity; }
      return -data.size[at] * (data.to[at] - data.from[at]);
    });
  };

  /** Returns the next block with the same addresses, later (1) or earlier (-1); -1 if there is none. */
  cubeyard.nextBlock = function (data, of, direction) {
    const middle = data.start[of] + data.size[of] / 2;
    return least(data, function (at) {
      if (data.start[at] > middle || middle >= data.start[at] + data.size[at]) { return Infinity; }
      const away = direction > 0 ? data.from[at] - data.to[of] : data.from[of] - data.to[at];
      return away >= 0 ? away : Infinity;
    });
  };

  /** Returns the block above (1) or below (-1) in the middle of a block's life; -1 if there is none. */
  cubeyard.blockBeside = function (data, of, direction) {
    const middle = (data.from[of] + data.to[of]) / 2;
    return least(data, function (at) {
      if (data.from[at] > middle || middle >= data.to[at]) { return Infinity; }
      const away = direction > 0 ? data.start[at] - data.start[of] - data.size[of] : data.start[of] - data.start[at] - data.size[at];
      return away >= 0 ? away : Infinity;
    });
  };
}());
