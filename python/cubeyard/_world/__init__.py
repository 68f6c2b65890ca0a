"""The machine of a world of ranks: it performs the collectives of programs that run elsewhere.

`cubeyard.torch.distributed` starts it, in a process of its own (`python -m cubeyard._world`) or within the program if
all ranks are threads of it. Nothing here imports PyTorch.

- `operation`: a collective, in the words of the simulated machine.
- `fabric`: simulates operations.
- `numbers`, `order`: compute what the machine would, in the order in which it adds.
- `machine`: matches the calls of the ranks, performs them and keeps their times.
- `wire`, `server`: messages between processes, and the process that answers them.
- `records`, `timeline`: what was performed, as a report, a trace and a picture.
"""
