"""Records a history with calls of `torch.cuda.empty_cache()`, a request that releases the cache before it is served, and
one that fails. Prints the bytes that each call returned.

    python testdata/traces/emptied_caches.py emptied_caches.pickle.gz
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python testdata/traces/emptied_caches.py emptied_caches_expandable.pickle.gz

Recorded on an H200 with PyTorch 2.11.0: 352,321,536, 767,557,632, 0 and 379,584,512 bytes; with expandable segments
62,914,560, 780,140,544, 0 and 379,584,512.
"""

import gzip
import pickle
import random
import sys

import torch

live = []


def churn(count, most, kept):
    """Allocates blocks of random sizes, and keeps some of them."""
    for _ in range(count):
        live.append(torch.empty(random.randrange(1, most), dtype=torch.uint8, device="cuda"))
        while len(live) > kept:
            live.pop(random.randrange(len(live)))


def empty_cache():
    """Returns unused memory to the device, and prints how much."""
    before = torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    print("returned", before - torch.cuda.memory_reserved())


def main(path):
    torch.cuda.init()
    torch.cuda.memory._record_memory_history(max_entries=200_000, context=None)
    random.seed(3)
    churn(200, 30 << 20, 40)
    empty_cache()
    churn(100, 8 << 20, 10)
    empty_cache()
    empty_cache()  # Nothing is left to return: the history has no entry of this call.
    live.clear()
    churn(60, 40 << 20, 20)
    # With this limit the next request releases the cache and tries again.
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (4 << 20)) / total)
    live.clear()
    live.append(torch.empty(300 << 20, dtype=torch.uint8, device="cuda"))
    try:
        torch.empty(64 << 30, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        pass
    torch.cuda.set_per_process_memory_fraction(1.0)
    churn(50, 8 << 20, 10)
    live.clear()
    empty_cache()
    with gzip.open(path, "wb") as file:
        pickle.dump(torch.cuda.memory._snapshot(), file)


if __name__ == "__main__":
    main(sys.argv[1])
