r"""Ax's modular generator, with counts of readings and draws that follow from a seed."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from ax.adapter.registry import GeneratorRegistryBase, GeneratorSetup, MBM_X_trans
from ax.adapter.transforms.derelativize import Derelativize
from ax.core.search_space import SearchSpaceDigest
from ax.core.types import TCandidateMetadata
from ax.generators.torch.botorch_modular.acquisition import Acquisition
from ax.generators.torch.botorch_modular.generator import BoTorchGenerator
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch_base import TorchGenResults, TorchOptConfig
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.utils.datasets import SupervisedDataset
from torch import Tensor

from botorch_risk.arguments import check_integers
from botorch_risk.ax.acquisition import RiskAcquisition
from botorch_risk.ax.observed import ObservedAdapter
from botorch_risk.seeding import derive_seed


class RiskGenerator(BoTorchGenerator):
    r"""Ax's modular generator whose candidates are a function of the data and a seed.

    Models are fitted from the start each time, and draws follow from `seed` and the number of rows.
    So a saved and loaded experiment continues with the same candidate. With Ax's own generators it
    does not, since Ax does not store the state of torch's generator.

    Args:
        surrogate_spec: The models by metric, as in Ax.
        acquisition_class: Ax's wrapper of an acquisition function; `RiskAcquisition` by default.
        acquisition_options: Options of the wrapper.
        botorch_acqf_class: The acquisition function.
        botorch_acqf_options: Options of the acquisition function.
        seed: Seed of every random draw.
        contexts: The tracking metrics that are contexts, in their order.
    """

    def __init__(
        self,
        surrogate_spec: SurrogateSpec | None = None,
        acquisition_class: type[Acquisition] | None = None,
        acquisition_options: dict[str, Any] | None = None,
        botorch_acqf_class: type[AcquisitionFunction] | None = None,
        botorch_acqf_options: dict[str, Any] | None = None,
        seed: int = 0,
        contexts: Sequence[str] | None = None,
    ) -> None:
        check_integers(seed=seed)
        super().__init__(
            surrogate_spec=surrogate_spec,
            acquisition_class=acquisition_class or RiskAcquisition,
            acquisition_options=acquisition_options,
            botorch_acqf_class=botorch_acqf_class,
            botorch_acqf_options=botorch_acqf_options,
            warm_start_refit=False,
        )
        self.seed = seed
        self.contexts = contexts

    def fit(
        self,
        datasets: Sequence[SupervisedDataset],
        search_space_digest: SearchSpaceDigest,
        candidate_metadata: list[list[TCandidateMetadata]] | None = None,
        state_dict: OrderedDict[str, Tensor] | None = None,
        refit: bool = True,
        **additional_model_inputs: Any,
    ) -> None:
        r"""Fit the models from the start, with draws that follow from the data."""
        with addressed_draws(self.seed, "fit", sum(len(dataset.Y) for dataset in datasets)):
            super().fit(
                datasets,
                search_space_digest,
                candidate_metadata,
                state_dict,
                refit,
                **additional_model_inputs,
            )

    def gen(
        self, n: int, search_space_digest: SearchSpaceDigest, torch_opt_config: TorchOptConfig
    ) -> TorchGenResults:
        r"""The candidates, with draws that follow from the data."""
        pending = torch_opt_config.pending_observations or []
        rows = sum(len(X) for X in (*self.Xs, *pending))
        with addressed_draws(self.seed, "gen", rows):
            return super().gen(n, search_space_digest, torch_opt_config)

    def acquisition_function(
        self, search_space_digest: SearchSpaceDigest, torch_opt_config: TorchOptConfig
    ) -> AcquisitionFunction:
        r"""The acquisition function of the present models, as `gen` would maximise it."""
        return self._instantiate_acquisition(
            search_space_digest=search_space_digest,
            torch_opt_config=torch_opt_config,
            botorch_acqf_options=self._botorch_acqf_options,
            acq_options=self.acquisition_options,
            n=1,
        ).acqf


@contextmanager
def addressed_draws(seed: int, *stream: int | str) -> Iterator[None]:
    r"""A context in which torch draws from a named stream without changing its own state."""
    with torch.random.fork_rng():
        torch.manual_seed(derive_seed(seed, *stream))
        yield


class RiskGenerators(GeneratorRegistryBase):
    r"""Ax's names of the generators of this package, for a `GeneratorSpec`.

    Outcomes keep their units, in which noise and risk are defined; the models standardise them.
    Parameters are transformed as in Ax's own modular generator.

    Example:
        >>> RiskGenerators.RISK.generator_class.__name__
        'RiskGenerator'
    """

    RISK = "Risk"

    @property
    def GENERATOR_KEY_TO_GENERATOR_SETUP(self) -> dict[str, GeneratorSetup]:
        r"""The classes that Ax builds for each name."""
        setup = GeneratorSetup(
            adapter_class=ObservedAdapter,
            generator_class=RiskGenerator,
            transforms=[*MBM_X_trans, Derelativize],
        )
        return {"Risk": setup}
