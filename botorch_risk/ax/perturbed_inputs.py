r"""Parameters that are carried out inexactly, by name."""

from __future__ import annotations

from typing import Any

import torch
from ax.exceptions.core import UserInputError
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.utils.sampling import draw_sobol_normal_samples

from botorch_risk.ax.acquisition import RiskAcquisition
from botorch_risk.environments import InputPerturbation


class PerturbedInputsAcquisition(RiskAcquisition):
    r"""Ax's `Acquisition` for parameters that are carried out with a normal error.

    Its `options`, by `acquisition_options` of the generator: `deviations`, the standard deviation
    of the error by the parameter's name, of a log-scaled one in powers of ten; `n_w`, the number of
    perturbations that stand for the distribution; `seed`. What would leave the search space is
    carried out on its edge.

    Example:
        >>> from botorch_risk.ax import under_perturbed_inputs
        >>> strategy = under_perturbed_inputs({"heat": 0.05})
        >>> (spec,) = strategy.nodes_by_name["under_perturbed_inputs"].generator_specs
        >>> spec.generator_kwargs["acquisition_class"].__name__
        'PerturbedInputsAcquisition'
    """

    def _construct_botorch_acquisition(
        self,
        botorch_acqf_class: type[AcquisitionFunction],
        botorch_acqf_options: dict[str, Any],
        model: Model,
    ) -> AcquisitionFunction:
        options = {"environment": self._perturbation(), **botorch_acqf_options}
        return super()._construct_botorch_acquisition(botorch_acqf_class, options, model)

    def _perturbation(self) -> InputPerturbation:
        r"""The distribution of the errors, in the units of the models.

        Raises:
            UserInputError: If a name is no parameter with a continuous range.
        """
        digest = self.search_space_digest
        deviations: dict[str, float] = self.options["deviations"]
        discrete = {*digest.ordinal_features, *digest.categorical_features}
        ranges = [
            name for column, name in enumerate(digest.feature_names) if column not in discrete
        ]
        if unknown := [name for name in deviations if name not in ranges]:
            raise UserInputError(
                f"Expected perturbed parameters among those with a continuous range, {ranges}. "
                f"Got {unknown}."
            )
        errors = draw_sobol_normal_samples(
            d=len(deviations), n=self.options["n_w"], seed=self.options["seed"], dtype=torch.double
        )
        perturbations = torch.zeros(len(errors), len(digest.feature_names), dtype=torch.double)
        for column, (name, deviation) in enumerate(deviations.items()):
            perturbations[:, digest.feature_names.index(name)] = deviation * errors[:, column]
        bounds = torch.tensor(digest.bounds, dtype=torch.double).mT
        like = self.surrogate.Xs[0]
        return InputPerturbation(perturbations.to(like), bounds=bounds.to(like))
