"""A recorded allocation trace under every policy: how much memory would another allocator need?"""

# %% PyTorch's `torch.cuda.memory._snapshot()`, its file, or a trace; here the one that comes with the package.
import cubeyard.replay

trace = cubeyard.replay.example()
print(trace)

# %% A row for each policy; pandas and polars read it as it is.
compared = cubeyard.replay.compare(trace)
for row in compared.rows():
    print(f"{row['policy']:24} {row['peak_reserved_bytes'] / 2**30:6.2f} GiB reserved, {row['waste']:.3f} of what lives")

# %% In a notebook `compared` is a page with the memory over time.
assert "<svg" in compared.page()
