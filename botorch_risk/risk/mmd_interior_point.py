r"""Certified batched interior-point solver of linear programs over the simplex and a ball.

    min_p {c'p : p >= 0, 1'p = 1, |B p - a| <= 1}   with one `B: r x n_w` for all candidates, or
                                                    one for each

It is a primal-dual method with Nesterov-Todd scaling and Mehrotra's predictor and corrector
[Vandenberghe2010cvxopt]_, for the conic form

    primal: min c'x   with 1'x = 1, B x - z = a, z_0 = 1, x >= 0, (z_0, z) in the cone
    dual:   max t + a'nu - sigma   with s = c - t - B'nu >= 0, (sigma, nu) in the cone

Every iterate gives a distribution in the ball, by mixing with the centre, and a lower bound of the
minimum, `min_j (c - B'nu)_j + a'nu - |nu|` for ANY nu, so their gap certifies the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

# How far to step towards the boundary and how often: fast, then safe for few atoms in a tiny ball.
ATTEMPTS = ((0.95, 25), (0.8, 100))
PAIRS_LIMIT = 300e6 / 8  # numbers in the table of products of rows
PAIRS_WORTHWHILE = 32  # candidates at once


@dataclass
class RowsOfEach:
    r"""`G = (1'; B)` of each candidate, `b x (1 + r) x n_w`."""

    G: Tensor

    @classmethod
    def of(cls, B: Tensor) -> RowsOfEach:
        return cls(torch.cat([torch.ones_like(B[:, :1]), B], dim=-2))

    def take(self, rows: Tensor) -> RowsOfEach:
        return RowsOfEach(self.G[rows])

    def image(self, x: Tensor) -> Tensor:
        r"""`G x`, `b x (1 + r)`."""
        return (self.G @ x.unsqueeze(-1)).squeeze(-1)

    def adjoint(self, y: Tensor) -> Tensor:
        r"""`G' y`, `b x n_w`."""
        return (self.G.mT @ y.unsqueeze(-1)).squeeze(-1)

    def gram(self, diagonal: Tensor) -> Tensor:
        r"""`G diag(theta) G'` for each row theta of `diagonal`."""
        return (self.G * diagonal.unsqueeze(-2)) @ self.G.mT


class BallRows:
    r"""The parts that candidates share: `G = (1'; B)` and the products of pairs of its rows.

    The table of products is built when enough candidates need it; for fewer, reading it takes
    longer than it saves.
    """

    def __init__(self, B: Tensor) -> None:
        self.G = torch.cat([torch.ones_like(B[:1]), B])  # (1 + r) x n_w
        self._table: tuple[Tensor, Tensor] | None = None

    def take(self, rows: Tensor) -> BallRows:
        return self

    def image(self, x: Tensor) -> Tensor:
        return x @ self.G.T

    def adjoint(self, y: Tensor) -> Tensor:
        return y @ self.G

    def gram(self, diagonal: Tensor) -> Tensor:
        r"""`G diag(theta) G'` for each row theta of `diagonal`; one product for all."""
        size, n_w = self.G.shape
        small = n_w * size * (size + 1) / 2 < PAIRS_LIMIT
        if not small or len(diagonal) < PAIRS_WORTHWHILE:
            return (self.G * diagonal.unsqueeze(-2)) @ self.G.T
        if self._table is None:
            self._table = self._products()
        pairs, position = self._table
        return (diagonal @ pairs).index_select(-1, position).view(-1, size, size)

    def _products(self) -> tuple[Tensor, Tensor]:
        r"""Products of pairs of rows, `n_w x pairs`, and the pair of each entry of a matrix."""
        size = len(self.G)
        i, j = torch.tril_indices(size, size, device=self.G.device)
        position = torch.zeros(size, size, dtype=torch.long, device=self.G.device)
        position[i, j] = position[j, i] = torch.arange(len(i), device=self.G.device)
        return (self.G[i] * self.G[j]).T.contiguous(), position.flatten()


@dataclass
class BallProgram:
    r"""One program per candidate, which is one row of every field; finished programs are dropped.

    Args:
        costs: c, `b x n_w`, from 0 to 1.
        centre: A distribution p_0 with `B p_0 = a`, `b x n_w`.
        image: a, `b x r`.
        distribution: The best distribution so far, `b x n_w`.
        value: Its cost, `b`.
        bound: The best lower bound so far, `b`.
        dual: The nu of that bound, `b x r`.
    """

    costs: Tensor
    centre: Tensor
    image: Tensor
    distribution: Tensor
    value: Tensor
    bound: Tensor
    dual: Tensor

    @classmethod
    def start(cls, costs: Tensor, centre: Tensor, image: Tensor) -> BallProgram:
        r"""A batch that begins with the centre as its answer and the smallest cost as its bound."""
        value, dual = (costs * centre).sum(dim=-1), torch.zeros_like(image)
        return cls(costs, centre, image, centre.clone(), value, torch.zeros_like(value), dual)

    @property
    def gap(self) -> Tensor:
        r"""The largest possible excess of the value over the minimum, `b`."""
        return self.value - self.bound

    def take(self, rows: Tensor) -> BallProgram:
        return replace(self, **_rows(self, rows))

    def put(self, rows: Tensor, other: BallProgram) -> None:
        for name in ("distribution", "value", "bound", "dual"):
            getattr(self, name)[rows] = getattr(other, name)

    def improve(self, distribution: Tensor, slack: Tensor, t: Tensor, nu: Tensor) -> None:
        r"""Keep a distribution in the ball, and the bound of a nu, if they are the best so far.

        The slack is `c - t - B'nu`, `b x n_w`.
        """
        value = (self.costs * distribution).sum(dim=-1)
        better = value < self.value
        self.distribution = torch.where(better.unsqueeze(-1), distribution, self.distribution)
        self.value = torch.where(better, value, self.value)
        # The smallest slack may be added to t: the dual is then feasible for any nu.
        bound = slack.amin(dim=-1) + t + (nu * self.image).sum(dim=-1) - nu.norm(dim=-1)
        better = bound > self.bound
        self.bound = torch.where(better, bound, self.bound)
        self.dual = torch.where(better.unsqueeze(-1), nu, self.dual)


@dataclass
class _Iterate:
    r"""A point of the primal and the dual; `y = (t, nu)`, `z` and `cone = (sigma, nu)`."""

    x: Tensor  # b x n_w
    s: Tensor  # b x n_w
    z: Tensor  # b x (1 + r)
    y: Tensor  # b x (1 + r)
    sigma: Tensor  # b x 1

    @property
    def cone(self) -> Tensor:
        return torch.cat([self.sigma, self.y[:, 1:]], dim=-1)

    @classmethod
    def start(cls, rows: BallRows | RowsOfEach, program: BallProgram) -> _Iterate:
        r"""Start from a mixture of the centre and the uniform distribution, inside the ball."""
        n_w = program.costs.shape[-1]
        even = torch.full_like(program.costs, 1 / n_w)
        away = rows.image(even)[:, 1:] - program.image
        # Both sides start strictly inside: z at most half way to the boundary of its cone; with
        # t = -1 and nu = 0 the slack is c + 1 > 0. An x of 1 / n_w and a sigma like it keep the
        # products x s and z_0 sigma of one size, which the first steps need.
        mix = (0.5 / away.norm(dim=-1, keepdim=True)).clamp_max(0.5)
        head = torch.ones_like(mix)
        return cls(
            torch.lerp(program.centre, even, mix),
            program.costs + 1,
            torch.cat([head, mix * away], dim=-1),
            torch.cat([-head, torch.zeros_like(away)], dim=-1),
            head / n_w,
        )


@dataclass
class _Direction:
    x: Tensor
    s: Tensor
    z: Tensor
    y: Tensor
    cone: Tensor


def solve_programs(every: BallRows | RowsOfEach, program: BallProgram, tolerance: float) -> None:
    r"""Improve the distributions and bounds of a batch of programs in place.

    Candidates that the first attempt leaves unfinished, as happens if the centre has few atoms and
    the ball is tiny, are tried again with shorter steps. Candidates still unfinished have a gap
    above the tolerance; this function does not raise.
    """
    for fraction, limit in ATTEMPTS:
        rows = (program.gap > tolerance).nonzero().squeeze(-1)
        if not len(rows):
            return
        active, matrix = program.take(rows), every.take(rows)
        iterate = _Iterate.start(matrix, active)
        for _ in range(limit):
            image, slack = matrix.image(iterate.x), active.costs - matrix.adjoint(iterate.y)
            _certify(active, iterate, image, slack)
            if not (active.gap > tolerance).all():
                program.put(rows, active)
                keep = (active.gap > tolerance).nonzero().squeeze(-1)
                if not len(keep):
                    break
                rows, image, matrix = rows[keep], image[keep], matrix.take(keep)
                active, iterate = active.take(keep), replace(iterate, **_rows(iterate, keep))
            iterate = _advance(matrix, active, iterate, image, fraction)
        program.put(rows, active)


def _rows(batch: BallProgram | _Iterate, rows: Tensor) -> dict[str, Tensor]:
    return {f.name: getattr(batch, f.name).index_select(0, rows) for f in fields(batch)}


def _certify(program: BallProgram, iterate: _Iterate, image: Tensor, slack: Tensor) -> None:
    r"""Keep the distribution and the bound of an iterate if they are the best so far."""
    # Scaled to sum 1, then mixed with the centre until it is within the ball.
    total = image[:, :1]
    distance = (image[:, 1:] / total - program.image).norm(dim=-1, keepdim=True)
    mix = (1 / distance).clamp_max(1.0)
    mixed = torch.lerp(program.centre, iterate.x / total, mix)
    program.improve(mixed, slack, iterate.y[:, 0], iterate.y[:, 1:])


def _advance(
    rows: BallRows | RowsOfEach,
    program: BallProgram,
    iterate: _Iterate,
    image: Tensor,
    fraction: float,
) -> _Iterate:
    x, s, z, cone = iterate.x, iterate.s, iterate.z, iterate.cone
    newton = _NewtonSystem(rows, program, iterate, image)
    # The predictor aims at complementarity 0, as if the equations were linear.
    predictor = newton.solve(-x, -z)
    primal, dual = _step_lengths(iterate, cone, predictor, 1.0)
    products = predictor.x * predictor.s
    # The inner product of primal and dual ahead, by `s dx + x ds = -x s` and its like in the cone.
    now = _dot(x, s) + _dot(z, cone)
    across = _dot(x, predictor.s) + _dot(z, predictor.cone)
    both = products.sum(dim=-1, keepdim=True) + _dot(predictor.z, predictor.cone)
    ahead = (1 - primal) * now + (dual - primal) * across + primal * dual * both
    # Mehrotra's rule: the further the predictor gets, the closer to the boundary the corrector may
    # aim. The barrier counts n_w for the orthant and 1 for the cone, whatever its dimension.
    target = (ahead / now) ** 3 * now / (x.shape[-1] + 1)

    # The corrector makes up for the products of steps that the linear equations leave out.
    # In the cone the steps are scaled; for the predictor, W^-1 dz = -lam - W dcone.
    lam, scaled = newton.scaling.apply(cone), newton.scaling.apply(predictor.cone)
    second_order = product(-lam - scaled, scaled)  # (W^-1 dz) o (W dcone)
    centring = torch.cat([target - second_order[:, :1], -second_order[:, 1:]], dim=-1)
    corrector = newton.solve(
        (target - products) / s - x, newton.scaling.apply(quotient(lam, centring)) - z
    )
    primal, dual = _step_lengths(iterate, cone, corrector, fraction)
    return _Iterate(
        torch.addcmul(x, primal, corrector.x),
        torch.addcmul(s, dual, corrector.s),
        torch.addcmul(z, primal, corrector.z),
        torch.addcmul(iterate.y, dual, corrector.y),
        torch.addcmul(iterate.sigma, dual, corrector.cone[:, :1]),
    )


def _dot(u: Tensor, v: Tensor) -> Tensor:
    return (u * v).sum(dim=-1, keepdim=True)


class _NewtonSystem:
    r"""The linear system of an iterate, factored once and solved for several targets.

    With `s dx + x ds = s q`, that is `dx = q - theta ds` where `theta = x / s`, and with
    `dz = q_z - W^2 dcone`, everything but `(dt, dnu, -dsigma)` is eliminated. The dual equation
    holds at the start and in all iterates.
    """

    def __init__(
        self, rows: BallRows | RowsOfEach, program: BallProgram, iterate: _Iterate, image: Tensor
    ) -> None:
        self.rows, self.theta = rows, iterate.x / iterate.s
        self.scaling = NesterovToddScaling.of(iterate.z, iterate.cone)
        head, tail = iterate.z[:, :1], iterate.z[:, 1:]
        residual = [1 - image[:, :1], program.image - image[:, 1:] + tail, 1 - head]
        self.residual = torch.cat(residual, dim=-1)
        size = image.shape[-1]
        # G diag(theta) G' and the scaling of the cone, whose square is a diagonal and twice a
        # matrix of rank one. With -dsigma as the last unknown the sum is positive definite, so that
        # Cholesky serves for a system of 2 + r unknowns, however many points there are.
        square, point = self.scaling.scale.square(), self.scaling.point
        column = torch.cat([torch.zeros_like(head), -point[:, 1:], point[:, :1]], dim=-1)
        matrix = (2 * square * column).unsqueeze(-1) * column.unsqueeze(-2)
        matrix[:, :size, :size] += rows.gram(self.theta)
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        diagonal[:, 1:size] += square
        diagonal[:, size:] -= square
        self.factor, failed = torch.linalg.cholesky_ex(matrix)
        if failed.any():  # by rounding, near the optimum: a shift far below the certified gap
            diagonal *= 1 + 1e-13
            self.factor = torch.linalg.cholesky_ex(matrix).L

    def solve(self, q: Tensor, q_z: Tensor) -> _Direction:
        r"""The direction whose complementarity has these right-hand sides."""
        right = self.residual.clone()
        right[:, :-1] -= self.rows.image(q)
        right[:, 1:-1] += q_z[:, 1:]
        right[:, -1:] -= q_z[:, :1]
        half = torch.linalg.solve_triangular(self.factor, right.unsqueeze(-1), upper=False)
        solution = torch.linalg.solve_triangular(self.factor.mT, half, upper=True).squeeze(-1)
        y = solution[:, :-1]
        s = -self.rows.adjoint(y)
        cone = torch.cat([-solution[:, -1:], y[:, 1:]], dim=-1)
        x = torch.addcmul(q, self.theta, s, value=-1)
        return _Direction(x, s, q_z - self.scaling.apply_twice(cone), y, cone)


def _step_lengths(
    iterate: _Iterate, cone: Tensor, direction: _Direction, fraction: float
) -> tuple[Tensor, Tensor]:
    r"""A fraction of the way to the boundary, at most 1; primal and dual, `b x 1` each."""
    orthant = torch.cat(
        [(direction.x / iterate.x).amin(dim=-1), (direction.s / iterate.s).amin(dim=-1)]
    )
    inverse = inverse_step(torch.cat([iterate.z, cone]), torch.cat([direction.z, direction.cone]))
    lengths = fraction / torch.maximum(-orthant, inverse).clamp_min(fraction)
    primal, dual = lengths.unsqueeze(-1).chunk(2)
    return primal, dual


# Arithmetic in the second-order cone `{v : v_0 >= |v_1..r|}` for interior-point methods.
#
# Vectors are `b x (1 + r)` tensors with the head `v_0` first. With `J = diag(1, -1, ..., -1)` and
# `det v = v' J v`, the Jordan product is `u o v = (u'v, u_0 v_1 + v_0 u_1)`.


def reflect(v: Tensor) -> Tensor:
    r"""`J v`: the tail changes sign."""
    return torch.cat([v[:, :1], -v[:, 1:]], dim=-1)


def determinant(v: Tensor) -> Tensor:
    r"""`v' J v` as a product, which loses no digits near the boundary; `b x 1`."""
    head, length = v[:, :1], v[:, 1:].norm(dim=-1, keepdim=True)
    return (head - length) * (head + length)


def product(u: Tensor, v: Tensor) -> Tensor:
    r"""The Jordan product `u o v`."""
    head = (u * v).sum(dim=-1, keepdim=True)
    return torch.cat([head, u[:, :1] * v[:, 1:] + v[:, :1] * u[:, 1:]], dim=-1)


def quotient(u: Tensor, v: Tensor) -> Tensor:
    r"""The `y` with `u o y = v`, for `u` inside the cone."""
    head = (u * reflect(v)).sum(dim=-1, keepdim=True) / determinant(u)
    return torch.cat([head, (v[:, 1:] - head * u[:, 1:]) / u[:, :1]], dim=-1)


def inverse_step(v: Tensor, direction: Tensor) -> Tensor:
    r"""One over the largest `a` with `v + a direction` in the cone, `b`; <= 0 if `a` is unbounded.

    It is the largest root y of `det(y v + direction) = 0`.
    """
    square = determinant(v).squeeze(-1)
    half = (v * reflect(direction)).sum(dim=-1)
    # Negative by rounding only: v is inside the cone, so that the roots are real.
    discriminant = half.square() - square * determinant(direction).squeeze(-1)
    return (discriminant.clamp_min(0.0).sqrt() - half) / square


@dataclass
class NesterovToddScaling:
    r"""The symmetric `W` with `W s = W^-1 z`, for `z` and `s` inside the cone.

    `W = scale (2 a a' - J)` with `det a = 1`, so `W^2 = scale^2 (2 w w' - J)` where `w = a o a`.
    Source: [Vandenberghe2010cvxopt]_.

    Args:
        scale: `b x 1`.
        root: The vector a, `b x (1 + r)`.
        point: The vector w, `b x (1 + r)`.
    """

    scale: Tensor
    root: Tensor
    point: Tensor

    @classmethod
    def of(cls, z: Tensor, s: Tensor) -> NesterovToddScaling:
        r"""The scaling of a pair of points inside the cone."""
        det_z, det_s = determinant(z), determinant(s)
        # Both of determinant 1, so that w is too.
        z, s = z / det_z.sqrt(), s / det_s.sqrt()
        point = z + reflect(s)
        point = point / (2 * (1 + (z * s).sum(dim=-1, keepdim=True))).sqrt()
        # The root of w in the Jordan algebra, (w + e) / sqrt(2 (w_0 + 1)).
        root = torch.cat([point[:, :1] + 1, point[:, 1:]], dim=-1)
        root = root / (2 * root[:, :1]).sqrt()
        return cls((det_z / det_s) ** 0.25, root, point)

    def apply(self, v: Tensor) -> Tensor:
        along = 2 * (self.root * v).sum(dim=-1, keepdim=True)
        return self.scale * (along * self.root - reflect(v))

    def apply_twice(self, v: Tensor) -> Tensor:
        along = 2 * (self.point * v).sum(dim=-1, keepdim=True)
        return self.scale.square() * (along * self.point - reflect(v))
