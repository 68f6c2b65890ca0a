"""Simulated machine of a world, which performs the collectives of programs that run elsewhere.

`cubeyard.torch.distributed` starts the machine in a process of its own (`python -m cubeyard.collectives.world`). If all
ranks are threads of one program, the machine runs inside that program. No module here imports PyTorch.

- `machine`: the machine, which matches, performs and records the calls of the ranks. Its core is in Rust.
- `wire`, `server`: messages between processes, and the server process.
- `records`: performed collectives as a report, a trace and a drawing.
"""
