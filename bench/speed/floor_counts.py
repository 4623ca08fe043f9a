r"""Operations and bytes that the mathematics of each part needs, term by term.

An operation is an addition, a multiplication, a comparison, a division, or one value of exp or of
a square root. Symmetric and triangular matrices count as half. What is done to single entries
counts at the rate of a large matrix product, as if it were fused into the pass before, but for exp,
square roots and divisions, which have rates of their own. Bytes are counted for the inputs and the
results, each once; what lies between is taken to stay in the cache.
"""

import math
from typing import NamedTuple

NUMBER = 8  # bytes of a float64


class Term(NamedTuple):
    r"""Operations at the rate that the machine has for one kernel at one shape.

    Args:
        probe: The kernel, a key of `bench.speed.machine_rates.PROBES`.
        shape: What it is measured at.
        operations: How many the mathematics needs; for `copy` bytes read or written.
    """

    probe: str
    shape: tuple[int, ...]
    operations: float


class Count(NamedTuple):
    r"""What a part needs: one term after another, while its bytes are moved beside them."""

    terms: tuple[Term, ...]
    memory: Term

    @property
    def matrix_products(self) -> float:
        r"""Operations of the matrix products if all matrices are taken as full ones."""
        return sum(2.0 * math.prod(t.shape) for t in self.terms if t.probe == "product")


def product(batch: int, m: int, k: int, n: int, share: float = 1.0) -> Term:
    r"""A product of `batch x m x k` with `batch x k x n`, or the share of it that is needed."""
    return Term("product", (batch, m, k, n), share * 2.0 * batch * m * k * n)


def simple(operations: float) -> Term:
    r"""Additions, multiplications and comparisons of single entries."""
    return Term("peak", (512,), operations)


def entrywise(probe: str, entries: float) -> Term:
    r"""Exponentials, square roots or divisions, at the rate of a block in the cache."""
    return Term(probe, (2**14,), entries)


def memory(numbers: float) -> Term:
    r"""Numbers that are read or written, at the bandwidth of a copy of as many."""
    return Term("copy", (max(1, int(numbers) // 2),), NUMBER * numbers)


def marginals(R: int, n: int, d: int, m: int, matern: bool, gradient: bool) -> Count:
    r"""Mean and variance at m points of each of R models of n points; with their gradients."""
    entries = R * m * n
    terms = [
        product(R, m, d, n),  # -2 z'z_j of the squared distances
        simple(3 * entries),  # + |z|^2, + |z_j|^2, not below 0
        entrywise("exp", entries),
        simple((5 if matern else 1) * entries),  # the polynomial of Matern-5/2; -1/2 of RBF
        product(R, m, n, 1),  # the mean: k w
        product(R, m, n, n, share=0.5),  # L^-1 k, of a triangular factor
        simple(2 * entries),  # |L^-1 k|^2
    ]
    if matern:
        terms.append(entrywise("sqrt", entries))  # the distance itself
    if gradient:
        terms += [
            product(R, m, n, n, share=0.5),  # L^-T (L^-1 k)
            simple((4 if matern else 2) * entries),  # times the slope, for mean and variance
            product(R, m, n, d),  # sum_j s_j z_j of the mean
            product(R, m, n, d),  # and of the variance
            simple(2 * entries),  # sum_j s_j of both
        ]
    # The factor, data and points are read; moments and, with a gradient, d numbers are written.
    numbers = R * (n * n / 2 + n * d + n + m * d + 2 * m + (m * d if gradient else 0))
    return Count(tuple(terms), memory(numbers))


def likelihood(R: int, n: int, d: int) -> Count:
    r"""The log marginal likelihood of R data sets and its gradient in all hyperparameters, RBF."""
    pairs = R * n * n / 2
    terms = (
        entrywise("divide", R * n * d),  # x / lengthscale
        simple(3 * d * pairs),  # squared distances by differences, as close points need
        entrywise("exp", pairs),
        simple(2 * pairs),  # -1/2, outputscale
        Term("cholesky", (R, n), R * n**3 / 3),
        Term("inverse", (R, n), 2 * R * n**3 / 3),  # all entries of A^-1, from its factor
        product(R, n, n, 1),  # A^-1 (y - m)
        simple(2 * pairs),  # A^-1 1, for the best constant mean
        simple(2 * pairs),  # w w' - A^-1, entry by entry
        simple(pairs),  # times the slope
        product(R, n, n, d),  # W z of the gradient in the lengthscales
        simple(2 * pairs),  # sum_j W_ij
        simple(R * n * (5 * d + 10)),  # what is left are vectors: diagonal, residual, z z' W
    )
    return Count(terms, memory(R * (n * d + n + 2 * (d + 3))))


def total_variation(rows: int, n_w: int) -> Count:
    r"""The worst case over a ball for each row, by a sort.

    A selection of the largest values would do with less than a sort where weights are equal.
    """
    entries = rows * n_w
    terms = (
        Term("sort", (rows, n_w), entries),
        simple(9 * entries),  # cumulative sum, what is taken (4), what is left (2), its mean (2)
    )
    return Count(terms, memory(entries + n_w + rows))


def discrepancy(steps: int, batch: int, n_w: int, rank: int) -> Count:
    r"""Steps of the interior-point method, each of one candidate; `batch` at once in the first.

    Args:
        steps: Over all candidates.
        batch: The candidates.
        n_w: The points.
        rank: The rows of `G`, one of them of ones.
    """
    pairs, order = rank * (rank + 1) // 2, rank + 1
    share, entries = steps / batch, steps * n_w
    terms = (
        product(1, batch, n_w, pairs, share),  # G diag(theta) G', half of a symmetric matrix
        Term("cholesky", (batch, order), steps * order**3 / 3),
        Term("solve", (batch, order), 4 * steps * order**2),  # predictor, corrector: two each
        *6 * [product(1, batch, n_w, rank, share)],  # G x, G'y; G q and G'dy of both
        entrywise("divide", 6 * entries),  # theta, second-order terms, four ratios of lengths
        # Both directions (4), step lengths (4), complementarity (8), corrector (3), the new
        # x and s (4), certificate (8); the cone has rank, not n_w, passes, which are left out.
        simple(31 * entries),
    )
    return Count(terms, memory(2 * batch * n_w))


def truncated_variance(points: int) -> Count:
    r"""A step on a finite domain: every candidate is valued over every point, then the update."""
    entries = points**2
    # Square, times the inverse variance, minimum, weighted sum (2); rank-one update (2).
    return Count((simple(7 * entries),), memory(2 * entries))  # the covariance, read and written
