// Copying to the clipboard, and the buttons of lines to copy.
var cubeyard = window.cubeyard || {};
(function () {
  'use strict';

  /** Copies without the clipboard interface, which some browsers deny to files. */
  function copyBySelection(content) {
    const area = document.createElement('textarea');
    area.value = content;
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done ? Promise.resolve() : Promise.reject(new Error('refused'));
  }

  function copy(content) {
    if (!navigator.clipboard) { return copyBySelection(content); }
    return navigator.clipboard.writeText(content).catch(function () { return copyBySelection(content); });
  }

  cubeyard.copy = copy;

  document.querySelectorAll('.copyable').forEach(function (place) {
    const button = place.querySelector('button'), status = place.querySelector('output');
    button.hidden = false;
    button.addEventListener('click', function () {
      copy(place.querySelector('code').textContent).then(
        function () { status.textContent = 'Copied.'; },
        function () { status.textContent = 'The browser does not allow copying.'; }
      );
    });
  });
}());
