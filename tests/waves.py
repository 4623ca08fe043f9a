r"""A smooth function of two inputs without noise, and models of a few of its values."""

import torch
from botorch.models import SingleTaskGP
from torch import Tensor

BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)


def waves(X: Tensor) -> Tensor:
    return (5 * X).sin().sum(dim=-1)


def model_of(*batch_shape: int) -> SingleTaskGP:
    X = torch.rand(*batch_shape, 10, 2, dtype=torch.double)
    return SingleTaskGP(X, waves(X).unsqueeze(-1))
