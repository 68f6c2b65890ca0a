// Tables: the button in a column's header sorts by that column; the button below copies the table as CSV.
(function () {
  'use strict';
  const TIMES = {ps: 1e-12, ns: 1e-9, 'µs': 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600};
  const NUMBER = /^[≈+]?\s*([-−]?[\d,]*\.?\d+(?:e[-+]?\d+)?)\s*(\S*)/i;

  /** Returns the size of a unit in the unit without a prefix. */
  function unitSize(unit) {
    if (unit in TIMES) { return TIMES[unit]; }
    if (/^[KMGTPE]iB/.test(unit)) { return Math.pow(1024, 'KMGTPE'.indexOf(unit[0]) + 1); }
    if (/^[kMGTPE](B|FLOP|$)/.test(unit)) { return Math.pow(1000, 'kMGTPE'.indexOf(unit[0]) + 1); }
    return 1;
  }

  /** Returns the number that a text begins with, in units without prefixes; NaN if there is none. */
  function numberOf(text) {
    const found = NUMBER.exec(text);
    return found ? Number(found[1].replace(/,/g, '').replace('−', '-')) * unitSize(found[2]) : NaN;
  }

  function text(cell) { return cell ? cell.textContent.trim().replace(/\s+/g, ' ') : ''; }

  /** Returns what a cell is sorted by: its attribute data-order, such as the seconds of a date, or its text. */
  function order(cell) { return cell && cell.dataset.order || text(cell); }

  function isMissing(value) { return value === '' || value === '–'; }

  /** Groups rows with those below that continue them: rows of one cell over several columns. */
  function groupsOf(body) {
    const groups = [];
    Array.from(body.rows).forEach(function (row) {
      const continues = row.cells.length === 1 && row.cells[0].colSpan > 1;
      if (continues && groups.length) { groups[groups.length - 1].push(row); } else { groups.push([row]); }
    });
    return groups;
  }

  function comparison(groups, column) {
    const values = groups.map(function (group) { return order(group[0].cells[column]); });
    const known = values.filter(function (value) { return !isMissing(value); });
    const isNumeric = known.every(function (value) { return !isNaN(numberOf(value)); });
    return function (left, right) {
      return isNumeric ? numberOf(left) - numberOf(right) : left.localeCompare(right, 'en', {numeric: true});
    };
  }

  function isTotal(group) { return group[0].classList.contains('total'); }

  /** Sorts groups of rows by a column; missing values and sums stay last in either direction. */
  function sorted(groups, column, sign) {
    const compare = comparison(groups, column);
    const value = function (group) { return order(group[0].cells[column]); };
    return groups.slice().sort(function (one, other) {
      const left = value(one), right = value(other);
      if (isTotal(one) || isTotal(other)) { return isTotal(one) - isTotal(other); }
      if (isMissing(left) || isMissing(right)) { return isMissing(left) - isMissing(right); }
      return sign * compare(left, right);
    });
  }

  const NEXT = {none: 'ascending', ascending: 'descending', descending: 'none'};

  function makeSortable(table) {
    const body = table.tBodies[0], heads = Array.from(table.tHead.rows[0].cells), original = groupsOf(body);
    function sortBy(head, column) {
      const direction = NEXT[head.getAttribute('aria-sort') || 'none'];
      heads.forEach(function (other) { other.removeAttribute('aria-sort'); });
      if (direction !== 'none') { head.setAttribute('aria-sort', direction); }
      const order = direction === 'none' ? original : sorted(original, column, direction === 'ascending' ? 1 : -1);
      order.forEach(function (group) { group.forEach(function (row) { body.appendChild(row); }); });
    }
    heads.forEach(function (head, column) {
      const isEmpty = original.every(function (group) { return text(group[0].cells[column]) === ''; });
      if (isEmpty || original.length === 1) { return; }
      const button = document.createElement('button');
      button.type = 'button';
      button.className = 'sort';
      button.append.apply(button, Array.from(head.childNodes));
      button.addEventListener('click', function () { sortBy(head, column); });
      head.append(button);
    });
  }

  /** Returns a field of CSV (RFC 4180). Numbers lose the commas between their thousands. */
  function field(cell) {
    const value = text(cell), plain = /^-?\d{1,3}(,\d{3})+(\.\d+)?$/.test(value) ? value.replace(/,/g, '') : value;
    return /[",\n]/.test(plain) ? '"' + plain.replace(/"/g, '""') + '"' : plain;
  }

  /** Returns the table as CSV, without columns that only have pictures. */
  function csv(table) {
    const rows = Array.from(table.rows);
    const heads = Array.from(rows[0].cells).map(function (_, column) { return column; });
    const shown = heads.filter(function (column) {
      return rows.slice(1).some(function (row) { return text(row.cells[column]) !== ''; });
    });
    const line = function (row) {
      return shown.map(function (column) { return field(row.cells[column]); }).join(',');
    };
    return rows.map(line).join('\r\n') + '\r\n';
  }

  function addCopyButton(table) {
    const tools = document.createElement('div'), button = document.createElement('button');
    const status = document.createElement('output');
    tools.className = 'tools';
    button.type = 'button';
    button.textContent = 'Copy as CSV';
    button.addEventListener('click', function () {
      cubeyard.copy(csv(table)).then(
        function () { status.textContent = table.rows.length - 1 + ' rows copied'; },
        function () { status.textContent = 'The browser does not allow copying.'; }
      );
    });
    tools.append(button, status);
    (table.closest('.wide') || table).after(tools);
  }

  document.querySelectorAll('table').forEach(function (table) {
    if (!table.tHead || !table.tBodies[0] || !table.tBodies[0].rows.length) { return; }
    makeSortable(table);
    addCopyButton(table);
  });
}());
