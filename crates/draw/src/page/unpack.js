// Packed data: numbers and text are kept in the page as gzip in base64, in an element of their own.
var cubeyard = {};
(function () {
  'use strict';

  function bytesOf(base64) {
    const text = atob(base64), bytes = new Uint8Array(text.length);
    for (let at = 0; at < bytes.length; at += 1) { bytes[at] = text.charCodeAt(at); }
    return bytes;
  }

  /** Returns a promise of the bytes that an element holds, as an ArrayBuffer. */
  cubeyard.unpack = function (element) {
    const packed = new Blob([bytesOf(element.textContent.trim())]).stream();
    return new Response(packed.pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
  };
}());
