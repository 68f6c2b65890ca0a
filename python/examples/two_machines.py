"""Two machines compared: would memory that is twice as fast make this kernel faster?"""

# %% The default machine, and one with other values of some keys of its topology.
import cubeyard

published = cubeyard.Topology()
faster = published.with_({"hbm.channel_bandwidth_gbs": 64})

# %% A bench that reads memory, and one that computes.
times = {}
for bench in ("copy", "gemm"):
    for name, topology in (("published", published), ("faster", faster)):
        run = cubeyard.run(bench, topology=topology)
        times[bench, name] = run.kernel_ns
        print(f"{bench:5} {name:10} {run.kernel_ns:10.1f} ns, limited by {run.limited_by}")

# %% The first gains, the second does not: its matrix unit was the limit already.
assert times["copy", "faster"] < 0.8 * times["copy", "published"]
assert times["gemm", "faster"] > 0.9 * times["gemm", "published"]
