"""A study of collectives: which algorithm wins for which size, and one in a worker that reads like DDP."""

# %% Every algorithm for some sizes, on the SIPs of the default machine.
import cubeyard.distributed as dist

study = dist.sweep(sizes="4K:1M:16")
for row in study.rows():
    print(f"{row['bytes']:8} bytes {row['algorithm']:18} {row['time_ns'] / 1e3:8.3f} µs, {row['busbw_gbs']:6.1f} GB/s")


# %% A worker of each rank, with its own tensor.
def worker(rank, sums):
    dist.init_process_group("ahbm")
    torch = dist.context()
    gradient = torch.full((1 << 16,), float(rank + 1), dtype="f32").to(dist.placement())
    dist.all_reduce(gradient)
    sums.append(gradient.numpy()[0])


sums = []
report = dist.spawn(worker, args=(sums,))
assert sums == [3.0, 3.0]
for call in report.calls:
    print(f"{call.operation} of {call.bytes} bytes by {call.algorithm}: {call.kernel_ns:.1f} ns")
