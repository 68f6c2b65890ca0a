document.querySelectorAll("svg.flame").forEach(function (graph) {
  var boxes = Array.from(graph.querySelectorAll("g.box"));
  var told = graph.parentNode.nextElementSibling;
  var show = function (event) {
    var box = event.target.closest("g.box");
    if (box) told.textContent = box.getAttribute("aria-label");
  };
  graph.addEventListener("mouseover", show);
  graph.addEventListener("focusin", show);
  graph.addEventListener("keydown", function (event) {
    var ways = {ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right"};
    var box = event.target.closest("g.box");
    if (!box) return;
    var way = ways[event.key];
    if (!way) return;
    event.preventDefault();
    var to = boxes[box.getAttribute("data-" + way) || -1];
    if (!to) return;
    box.setAttribute("tabindex", "-1");
    to.setAttribute("tabindex", "0");
    to.focus();
  });
});
