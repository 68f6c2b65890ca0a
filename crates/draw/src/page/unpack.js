// Packed data: numbers and text are kept in the page as gzip in base64, in an element of their own.
var cubeyard = window.cubeyard || {};
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

  /** Reads columns of whole numbers of up to 53 bits, seven bits in each byte, lowest first (LEB128). */
  cubeyard.columns = function (buffer, columns, count) {
    const bytes = new Uint8Array(buffer), numbers = new Float64Array(columns * count);
    let at = 0;
    for (let index = 0; index < numbers.length; index += 1) {
      let value = 0, size = 1, byte = 128;
      while (byte > 127) {
        byte = bytes[at];
        at += 1;
        value += (byte & 127) * size;
        size *= 128;
      }
      numbers[index] = value;
    }
    return Array.from({length: columns}, function (_, column) {
      return numbers.subarray(column * count, (column + 1) * count);
    });
  };

  /** Reads lines of text. */
  cubeyard.lines = function (buffer) {
    const text = new TextDecoder().decode(buffer);
    return text === '' ? [] : text.split('\n');
  };
}());
