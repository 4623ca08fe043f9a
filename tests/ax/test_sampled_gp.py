r"""Ax fits, predicts, generates and stores with samples of the hyperparameters."""

from pathlib import Path
from typing import Any

from ax.adapter.registry import Generators
from ax.api.client import Client
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generators.torch.botorch_modular.surrogate import ModelConfig, SurrogateSpec

from botorch_risk.models import SampledGP
from tests.ax.laboratory import laboratory

CHEAP = {"model_gen_options": {"optimizer_kwargs": {"num_restarts": 2, "raw_samples": 16}}}


def strategy() -> GenerationStrategy:
    surrogate = SurrogateSpec(model_configs=[ModelConfig(botorch_model_class=SampledGP)])
    spec = GeneratorSpec(
        generator_enum=Generators.BOTORCH_MODULAR,
        generator_kwargs={"surrogate_spec": surrogate},
        generator_gen_kwargs=CHEAP,
    )
    return GenerationStrategy(nodes=[GenerationNode(name="sampled", generator_specs=[spec])])


def model_of(client: Client) -> Any:
    adapter: Any = client._generation_strategy.adapter
    return adapter.generator.surrogate.model


def test_ax_generates_with_samples_and_goes_on_after_loading(tmp_path: Path) -> None:
    client = laboratory(strategy=strategy())
    for k in range(7):
        heat, stir = (0.37 * k) % 1.0, (0.61 * k) % 2.0
        index = client.attach_trial(parameters={"heat": heat, "stir": stir})
        purity = 40.0 + 5.0 * heat - (stir - 0.8) ** 2
        client.complete_trial(trial_index=index, raw_data={"purity": purity})
    ((_, parameters),) = client.get_next_trials(max_trials=1).items()
    assert 0.0 <= parameters["heat"] <= 1.0
    model = model_of(client)
    assert isinstance(model, SampledGP) and model.sampled.effective > 48
    lengthscale = model.covar_module.base_kernel.lengthscale
    assert lengthscale.shape == (16, 1, 2) and lengthscale.std(dim=0).min() > 0
    (predicted,) = client.predict([{"heat": 0.3, "stir": 1.0}])
    assert abs(predicted["purity"][0] - 41.5) < 1.0 and predicted["purity"][1] > 0
    client.save_to_json_file(str(tmp_path / "client.json"))
    again = Client.load_from_json_file(str(tmp_path / "client.json"))
    again.get_next_trials(max_trials=1)
    assert isinstance(model_of(again), SampledGP)
