"""The machine of a world of ranks: it performs the collectives of programs that run elsewhere.

`cubeyard.torch.distributed` starts it, in a process of its own (`python -m cubeyard.collectives.world`) or within the program if
all ranks are threads of it. Nothing here imports PyTorch.

- `machine`: the machine, which matches, performs and records the calls of the ranks; its core is Rust.
- `wire`, `server`: messages between processes, and the process that answers them.
- `records`: what was performed, as a report, a trace and a picture.
"""
