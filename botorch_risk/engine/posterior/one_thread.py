r"""Matrix products and factors in NumPy that start no threads.

OpenBLAS shares a product of more than 2^18 multiplications among all cores, and its threads wait
for each other in a loop. If the cores have other work, as in a container with part of a machine, a
product of 30 us then takes more than 1 ms.
"""

import numpy as np
from numpy import ndarray
from scipy.linalg import lapack

# Up to so many rows LAPACK factors and inverts without threads.
MOST_ROWS = 48
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


def inverse_factor(matrix: ndarray) -> ndarray | None:
    r"""`L^-1` of `L L' = matrix`, lower triangular; None if the matrix has no factor.

    By halves: with `W = L^-1` of the upper left part,

        [[W, 0], [-V L_21 W, V]],   L_21 = A_21 W',   V V' = (A_22 - L_21 L_21')^-1
    """
    n = len(matrix)
    if n <= MOST_ROWS:
        # The transpose of a symmetric matrix is the matrix itself in LAPACK's order of entries.
        factor, failed = lapack.dpotrf(matrix.T, lower=1)
        if failed:
            return None
        root: ndarray = lapack.dtrtri(factor, lower=1, overwrite_c=1)[0]
        return root
    half = n // 2
    first = inverse_factor(matrix[:half, :half])
    if first is None:
        return None
    below = product(matrix[half:, :half], first.T)
    second = inverse_factor(matrix[half:, half:] - product(below, below.T))
    if second is None:
        return None
    whole = np.zeros_like(matrix)
    whole[:half, :half], whole[half:, half:] = first, second
    whole[half:, :half] = -product(second, product(below, first))
    return whole
