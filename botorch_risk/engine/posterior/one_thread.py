r"""Matrix products in NumPy that start no threads.

OpenBLAS shares a product of more than 2^18 multiplications among all cores, and its threads wait
for each other in a loop. If the cores have other work, as in a container with part of a machine, a
product of 30 us then takes more than 1 ms.
"""

import numpy as np
from numpy import ndarray

MOST_MULTIPLICATIONS = 2**18


def product(rows: ndarray, matrix: ndarray) -> ndarray:
    r"""`... x m x k` times `... x k x n`, a few of the rows at a time if need be."""
    size = max(1, MOST_MULTIPLICATIONS // (matrix.shape[-2] * matrix.shape[-1]))
    count = rows.shape[-2]
    if count <= size:
        whole: ndarray = rows @ matrix
        return whole
    parts = (rows[..., start : start + size, :] for start in range(0, count, size))
    return np.concatenate([part @ matrix for part in parts], axis=-2)
