// Controls of what zooms and moves on a canvas: buttons, keys, wheel and dragging.
//
// What is controlled has `zoom(factor, x, y)`, `move(x, y)`, `all()`, `arrow(right, up, event)`, `share(event)`, which
// returns shares of the plot as `x` and `y`, and `tell(event)` for what is under the pointer.
(function () {
  'use strict';
  const BUTTONS = [
    ['+', 'Zoom in', function (it) { it.zoom(0.5, 0.5, 0.5); }],
    ['−', 'Zoom out', function (it) { it.zoom(2, 0.5, 0.5); }],
    ['←', 'Move left', function (it) { it.move(-0.25, 0); }],
    ['→', 'Move right', function (it) { it.move(0.25, 0); }],
    ['all', 'Show everything', function (it) { it.all(); }]
  ];
  const KEYS = {
    ArrowLeft: function (it, event) { it.arrow(-1, 0, event); },
    ArrowRight: function (it, event) { it.arrow(1, 0, event); },
    ArrowUp: function (it, event) { it.arrow(0, 1, event); },
    ArrowDown: function (it, event) { it.arrow(0, -1, event); },
    '+': BUTTONS[0][2],
    '=': BUTTONS[0][2],
    '-': BUTTONS[1][2],
    0: BUTTONS[4][2]
  };

  function within(share) { return Math.min(1, Math.max(0, share)); }

  function buttonOf(it, button) {
    const element = document.createElement('button');
    element.type = 'button';
    element.textContent = button[0];
    element.title = button[1];
    element.setAttribute('aria-label', button[1]);
    element.addEventListener('click', function () { button[2](it); });
    return element;
  }

  /** Returns a toolbar with the buttons, and with other elements after them. */
  cubeyard.zoomTools = function (it, others) {
    const tools = document.createElement('div');
    tools.className = 'tools';
    tools.append(...BUTTONS.map(function (button) { return buttonOf(it, button); }), ...others);
    return tools;
  };

  function turned(it, event) {
    const across = event.shiftKey ? event.deltaY : event.deltaX, at = it.share(event);
    if (event.ctrlKey) {
      it.zoom(event.deltaY > 0 ? 1.25 : 0.8, within(at.x), within(at.y));
    } else if (across) {
      it.move(across / event.currentTarget.clientWidth, 0);
    } else { return; }
    event.preventDefault();
  }

  function listenToPointer(canvas, it) {
    let held = null;
    canvas.addEventListener('pointerdown', function (event) {
      held = it.share(event);
      canvas.setPointerCapture(event.pointerId);
    });
    ['pointerup', 'pointercancel'].forEach(function (name) {
      canvas.addEventListener(name, function () { held = null; });
    });
    canvas.addEventListener('pointermove', function (event) {
      const now = it.share(event);
      if (held) {
        it.move(held.x - now.x, held.y - now.y);
        held = now;
      }
      it.tell(event);
    });
  }

  /** Listens to keys, wheel and pointer on a canvas. */
  cubeyard.listen = function (canvas, it) {
    canvas.addEventListener('keydown', function (event) {
      if (!KEYS[event.key] || event.ctrlKey || event.metaKey) { return; }
      event.preventDefault();
      KEYS[event.key](it, event);
    });
    canvas.addEventListener('wheel', function (event) { turned(it, event); }, {passive: false});
    listenToPointer(canvas, it);
  };
}());
