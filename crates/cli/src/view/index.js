// Runs: a filter of the rows by words, and the button that compares the two ticked runs.
(function () {
  'use strict';
  const table = document.querySelector('table.runs'), button = document.querySelector('.compare button');
  const boxes = Array.from(table.querySelectorAll('input[type=checkbox]'));

  /** Shows the rows that contain all words. Ticked rows stay, because the comparison is of them. */
  function filter(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    Array.from(table.tBodies[0].rows).forEach(function (row) {
      const content = row.textContent.toLowerCase(), box = row.querySelector('input');
      const fits = words.every(function (word) { return content.includes(word); });
      row.hidden = !fits && !(box && box.checked);
      shown += fits;
    });
    return shown;
  }

  function addFilter() {
    const tools = document.createElement('div'), field = document.createElement('input');
    const status = document.createElement('output');
    tools.className = 'tools filter';
    field.type = 'search';
    field.placeholder = 'Filter, such as gemm 4096';
    field.setAttribute('aria-label', 'Filter');
    field.addEventListener('input', function () {
      const shown = filter(field.value), all = table.tBodies[0].rows.length;
      status.textContent = field.value.trim() ? shown + ' of ' + all + ' rows' : '';
    });
    // Enter would submit the form.
    field.addEventListener('keydown', function (event) { if (event.key === 'Enter') { event.preventDefault(); } });
    tools.append(field, status);
    (table.closest('form') || table.closest('.wide')).before(tools);
  }

  /** Allows at most two ticks, and the comparison when there are two. */
  function update() {
    const ticked = boxes.filter(function (box) { return box.checked; });
    boxes.forEach(function (box) {
      box.disabled = ticked.length === 2 && !box.checked;
      box.closest('tr').setAttribute('aria-selected', String(box.checked));
    });
    button.disabled = ticked.length !== 2;
    button.textContent = ticked.length === 2 ? 'Compare ' + ticked[0].value + ' and ' + ticked[1].value : 'Compare two runs';
  }

  addFilter();
  if (button) {
    boxes.forEach(function (box) { box.addEventListener('change', update); });
    // A browser that goes back to this page restores the ticks.
    window.addEventListener('pageshow', update);
    update();
  }
}());
