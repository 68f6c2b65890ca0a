// Data of a timeline: the operations of every unit in columns, unpacked from the page.
(function () {
  'use strict';
  const COLUMNS = 8;

  /** Reads lanes, one in each line: PE, unit, number of operations. */
  function lanesOf(buffer) {
    let from = 0;
    return cubeyard.lines(buffer).map(function (line) {
      const parts = line.split('\t'), lane = {pe: parts[0], unit: parts[1], from: from, to: from + Number(parts[2])};
      from = lane.to;
      return lane;
    });
  }

  /** Computes instants from differences, and for each operation the latest end up to it in its lane. */
  function timesOf(lanes, deltas, lengths) {
    const count = deltas.length, start = new Float64Array(count), end = new Float64Array(count);
    const reach = new Float64Array(count);
    lanes.forEach(function (lane) {
      let now = 0, latest = 0;
      for (let at = lane.from; at < lane.to; at += 1) {
        now += deltas[at];
        start[at] = now;
        end[at] = now + lengths[at];
        latest = Math.max(latest, end[at]);
        reach[at] = latest;
      }
    });
    return {start: start, end: end, reach: reach};
  }

  function launchesOf(buffer) {
    return cubeyard.lines(buffer).map(function (line) {
      const parts = line.split('\t');
      return {name: parts[0], start: Number(parts[1]), end: Number(parts[2])};
    });
  }

  /** Returns a promise of the lanes, launches, names and columns that a figure holds. */
  cubeyard.timelineData = function (figure) {
    const parts = ['lanes', 'launches', 'names', 'ops'].map(function (name) {
      return cubeyard.unpack(figure.querySelector('.packed.' + name));
    });
    return Promise.all(parts).then(function (buffers) {
      const lanes = lanesOf(buffers[0]), count = lanes.length ? lanes[lanes.length - 1].to : 0;
      const columns = cubeyard.columns(buffers[3], COLUMNS, count);
      const times = timesOf(lanes, columns[0], columns[1]);
      return {
        lanes: lanes, launches: launchesOf(buffers[1]), names: cubeyard.lines(buffers[2]), count: count,
        start: times.start, end: times.end, reach: times.reach,
        idle: columns[2], kind: columns[3], name: columns[4], launch: columns[5], line: columns[6], why: columns[7]
      };
    });
  };

  /** Returns the first operation of a lane that has not ended at an instant. */
  cubeyard.firstAfter = function (data, lane, instant) {
    let low = lane.from, high = lane.to;
    while (high > low) {
      const middle = (low + high) >> 1;
      if (data.reach[middle] > instant) { high = middle; } else { low = middle + 1; }
    }
    return low;
  };

  /** Returns the operation of a lane at an instant, or the nearest within a tolerance; -1 if there is none. */
  cubeyard.operationAt = function (data, lane, instant, tolerance) {
    let best = -1, distance = tolerance;
    for (let at = cubeyard.firstAfter(data, lane, instant - tolerance); at < lane.to; at += 1) {
      if (data.start[at] > instant + tolerance) { break; }
      const away = Math.max(data.start[at] - instant, instant - data.end[at], 0);
      if (distance >= away) { best = at; distance = away; }
    }
    return best;
  };
}());
