"""Times of PyTorch's operators on the machine.

`cost` looks an operator up in a table, which says how to describe a call as kernels of the machine, and simulates each
kernel once. `register_cost` adds operators of a user.
"""

from cubeyard.torch.operators.cost import Cost, Estimated, TensorSpec, cost, estimated, register_cost
from cubeyard.torch.operators.description import Counts, Description, pointwise, product, reduction, rows

__all__ = [
    "Cost",
    "Counts",
    "Description",
    "Estimated",
    "TensorSpec",
    "cost",
    "estimated",
    "pointwise",
    "product",
    "reduction",
    "register_cost",
    "rows",
]
