r"""Describe a campaign, experiments x settings x strategies x seeds, in a file or Python."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import importlib.util
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle

from botorch_risk.arguments import check_counts
from botorch_risk_bench.experiments.definition import ExperimentDefinition
from botorch_risk_bench.experiments.registry import get_experiment

Setting = Mapping[str, Any]
_SETTING_KEYS = ("num_initial", "num_repeats", "problem", "strategy")
_MOST = 10_000_000  # runs of a campaign, and rounds of a run; more are a mistake, or malice
_AS_PUBLISHED: Mapping[str, Setting] = {"default": {}}


# CPU time of a round by its number of replicates, in units of a batch of one: a fixed part and a
# part for each replicate. RAHBO's loop took 2.08 s of one replicate and 5.44 s of 32
# (bench/speed/README.md).
_FIXED, _PER_REPLICATE = 0.95, 0.05


@dataclass(frozen=True, order=True)
class Block:
    r"""Seeds of one strategy on one experiment in one setting, which run as one batch."""

    experiment: str
    strategy: str
    setting: str
    seeds: tuple[int, ...]
    num_rounds: int

    @property
    def series(self) -> tuple[str, str, str]:
        return self.experiment, self.strategy, self.setting

    @property
    def key(self) -> tuple[str, str, str, int]:
        return (*self.series, self.seeds[0])

    @property
    def folder_name(self) -> str:
        r"""A file name that is unique to this block."""
        return hashlib.blake2b(repr(self.key).encode(), digest_size=12).hexdigest()

    def __str__(self) -> str:
        last = f" to {self.seeds[-1]}" if len(self.seeds) > 1 else ""
        return f"{', '.join(self.series)}, seeds {self.seeds[0]}{last}"


class _ByValue(tuple[ExperimentDefinition, ...]):
    r"""Experiments that are pickled by value, with the lambdas of a script."""

    def __reduce__(self) -> tuple[Any, ...]:
        return cloudpickle.loads, (cloudpickle.dumps(tuple(self)),)


@dataclass(frozen=True)
class Series:
    r"""Strategies of some experiments that are run on the same seeds.

    Args:
        experiments: Their names; see `botorch-risk list`.
        strategies: The labels of the strategies; all of each experiment by default.
        num_seeds: The number of seeds, `first_seed, first_seed + 1, ...`.
        first_seed: The first of them.
        num_rounds: The number of rounds after the initial design; the experiment's own by default.
        settings: What is changed in the experiments, by a name: `num_initial`, `num_repeats`, and
            further arguments of the `problem` and of each `strategy`. By default nothing is.

    Raises:
        ValueError: If a number is too small or above ten million, there is no experiment, or a
            setting changes something else.

    Example:
        >>> settings = {"k = 3": {"num_repeats": 3, "strategy": {"num_repeats": 3}}}
        >>> Series(("sine",), ("RAHBO",), num_seeds=4, settings=settings).strategies
        ('RAHBO',)
    """

    experiments: Sequence[str]
    strategies: Sequence[str] = ()
    num_seeds: int = 10
    first_seed: int = 0
    num_rounds: int | None = None
    settings: Mapping[str, Setting] = field(default_factory=lambda: _AS_PUBLISHED)

    def __post_init__(self) -> None:
        for name in ("experiments", "strategies"):
            object.__setattr__(self, name, _as_names(name, getattr(self, name)))
        if not isinstance(self.settings, Mapping):
            raise ValueError(f"Expected `settings` by their names. Got {self.settings!r}.")
        counts = self.num_seeds, 1 if self.num_rounds is None else self.num_rounds
        numbers = ("num_seeds", "first_seed", "num_rounds")
        _check_integers("a series", **{name: getattr(self, name) for name in numbers})
        if not self.experiments or not self.settings or min(counts) < 1 or self.first_seed < 0:
            raise ValueError(
                "Expected at least 1 experiment, setting, seed and round, and a first seed of at "
                f"least 0. Got {self.experiments=}, {self.settings=}, {self.num_seeds=}, "
                f"{self.num_rounds=}, {self.first_seed=}."
            )
        if max(counts) > _MOST or self.first_seed >= 2**62:
            raise ValueError(
                f"Expected at most {_MOST:,} seeds and rounds, and a first seed below 2**62. Got "
                f"{self.num_seeds=}, {self.num_rounds=}, {self.first_seed=}."
            )
        for name, setting in self.settings.items():
            _check_keys(f"setting {name!r}", setting, _SETTING_KEYS)

    @property
    def seeds(self) -> range:
        return range(self.first_seed, self.first_seed + self.num_seeds)


@dataclass(frozen=True)
class Campaign:
    r"""Experiments x settings x strategies x seeds, run, stopped and resumed together.

    Seeds run in blocks, each of which is one batch. Blocks are part of the description, so that
    the results depend neither on the workers nor on their number.

    Args:
        series: What is run, in this order.
        block_size: The largest number of seeds in a block; see `best_block_size`.
        modules: Where experiments of your own are: modules that workers can import, from the
            current folder as well, or `.py` files, each with a sequence `EXPERIMENTS` of
            `ExperimentDefinition`.
        own: Experiments without a module; a store does not keep them.

    Example:
        >>> campaign = Campaign("first", [Series(("sine", "branin"), ("RAHBO",), num_seeds=4)])
        >>> [block.seeds for block in campaign.blocks()]
        [(0, 1, 2, 3), (0, 1, 2, 3)]
    """

    name: str
    series: Sequence[Series]
    block_size: int = 16
    modules: Sequence[str] = ()
    own: Sequence[ExperimentDefinition] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "series", tuple(self.series))
        object.__setattr__(self, "modules", _as_names("modules", self.modules))
        object.__setattr__(self, "own", _ByValue(self.own))
        _check_integers("a campaign", block_size=self.block_size)
        if not self.series or self.block_size < 1:
            raise ValueError(
                "Expected at least 1 series and 1 seed in a block. Got "
                f"{len(self.series)} series, {self.block_size=}."
            )

    @classmethod
    def read(cls, path: str | Path) -> Campaign:
        r"""Read a `.yaml` or `.json` file, or a `.py` file that sets `CAMPAIGN`."""
        path = Path(path)
        if not path.is_file():
            raise ValueError(f"File not found: {path}")
        if path.suffix == ".py":
            found = getattr(_module_of(path), "CAMPAIGN", None)
            if not isinstance(found, cls):
                raise ValueError(
                    f"Expected {path} to set CAMPAIGN to a Campaign. Got {type(found).__name__}."
                )
        else:
            found = cls.from_json(_values_of(path))
        modules = [
            str((path.parent / name).resolve()) if name.endswith(".py") else name
            for name in found.modules
        ]
        return dataclasses.replace(found, modules=modules)

    @classmethod
    def from_json(cls, values: Any) -> Campaign:
        r"""Invert `to_json`; a single experiment or strategy need not be a list."""
        known = [each.name for each in dataclasses.fields(cls) if each.name != "own"]
        _check_keys("a campaign", values, known)
        names = [each.name for each in dataclasses.fields(Series)]
        listed = values.get("series")
        if not isinstance(values.get("name"), str) or not isinstance(listed, list):
            raise ValueError(
                "Expected a campaign to have a `name` and a list of `series`. Got "
                f"{sorted(values)}."
            )
        for each in listed:
            _check_keys("a series", each, names)
            if "experiments" not in each:
                raise ValueError(f"Expected a series to have `experiments`. Got {sorted(each)}.")
        return cls(**{**values, "series": [Series(**each) for each in listed]})

    def to_json(self) -> dict[str, Any]:
        series = [dataclasses.asdict(each) for each in self.series]
        modules = [_short(name) for name in self.modules]
        values = {"name": self.name, "series": series, "block_size": self.block_size}
        described: dict[str, Any] = json.loads(json.dumps({**values, "modules": modules}))
        return described

    def part(
        self,
        experiments: Sequence[str] = (),
        num_seeds: int | None = None,
        num_rounds: int | None = None,
    ) -> Campaign:
        r"""Select some experiments with at most so many seeds and rounds, for a trial."""
        known = list(dict.fromkeys(name for each in self.series for name in each.experiments))
        if unknown := [name for name in experiments if name not in known]:
            raise ValueError(f"Expected experiments of {self.name!r} ({known}). Got {unknown}.")
        if num_rounds is not None and num_rounds < 1:
            raise ValueError(f"Expected at least 1 round. Got {num_rounds=}.")
        series = []
        for each in self.series:
            seeds = each.num_seeds if num_seeds is None else min(each.num_seeds, num_seeds)
            by_rounds: dict[int | None, list[str]] = {}
            for name in (name for name in each.experiments if name in (experiments or known)):
                rounds = each.num_rounds
                if num_rounds is not None:  # an experiment's own may be fewer
                    rounds = min(rounds or self.definition(name, {}).num_rounds, num_rounds)
                by_rounds.setdefault(rounds, []).append(name)
            series += [
                dataclasses.replace(each, experiments=names, num_seeds=seeds, num_rounds=rounds)
                for rounds, names in by_rounds.items()
            ]
        return dataclasses.replace(self, series=series)

    def definition(self, experiment: str, setting: Setting) -> ExperimentDefinition:
        r"""An experiment as a setting changes it."""
        known = (*self.own, *experiments_of(self.modules))
        return changed(get_experiment(experiment, known), setting)

    def settings(self) -> dict[str, dict[str, Setting]]:
        r"""The settings by experiment."""
        found: dict[str, dict[str, Setting]] = {}
        for series in self.series:
            for experiment in series.experiments:
                known = found.setdefault(experiment, {})
                for name, setting in series.settings.items():
                    if known.setdefault(name, setting) != setting:
                        raise ValueError(
                            f"Expected one setting {name!r} of {experiment!r}. Got {known[name]} "
                            f"and {setting}."
                        )
        return found

    def blocks(self) -> list[Block]:
        r"""The units of work, in the order in which they start."""
        blocks = blocks_of(self.spelled_out(), self.block_size)
        seen: set[tuple[Any, ...]] = set()
        for block in blocks:
            for seed in block.seeds:
                if (key := (*block.series, seed)) in seen:
                    raise ValueError(f"Expected every run once. Got {key} twice.")
                seen.add(key)
        self.settings()
        return blocks

    def spelled_out(self) -> list[Series]:
        r"""The same runs, as one series per experiment with explicit strategies and rounds."""
        return [
            self._spelled_out(series, name) for series in self.series for name in series.experiments
        ]

    def _spelled_out(self, series: Series, name: str) -> Series:
        definition = self.definition(name, {})
        labels = series.strategies or tuple(definition.strategies)
        if unknown := [label for label in labels if label not in definition.strategies]:
            raise ValueError(
                f"Expected strategies of {name!r} ({', '.join(definition.strategies)}). "
                f"Got {unknown}."
            )
        rounds = series.num_rounds or definition.num_rounds
        return dataclasses.replace(series, experiments=name, strategies=labels, num_rounds=rounds)


def blocks_of(spelled_out: Sequence[Series], block_size: int) -> list[Block]:
    r"""Split series with explicit strategies and rounds into blocks."""
    runs = [(each.experiments, each.settings, each.strategies, each.seeds) for each in spelled_out]
    if (count := sum(math.prod(map(len, each)) for each in runs)) > _MOST:
        raise ValueError(f"Expected a campaign of at most {_MOST:,} runs. Got {count:,}.")
    return [
        Block(
            name,
            label,
            setting,
            tuple(series.seeds[first : first + block_size]),
            series.num_rounds or 0,
        )
        for series in spelled_out
        for name in series.experiments
        for setting in series.settings
        for label in series.strategies
        for first in range(0, series.num_seeds, block_size)
    ]


def best_block_size(num_seeds: int, num_series: int, num_workers: int) -> int:
    r"""Find the block size that finishes a campaign soonest.

    Large blocks take less work, small ones keep all workers busy. A round of R replicates costs
    `.95 + .05 R`, as measured for RAHBO's loop.

    Args:
        num_seeds: The number of seeds of each series.
        num_series: The number of experiments x settings x strategies.
        num_workers: The number of workers.

    Example:
        >>> best_block_size(20, num_series=40, num_workers=2), best_block_size(20, 1, 4)
        (20, 5)
    """
    check_counts(num_seeds=num_seeds, num_series=num_series, num_workers=num_workers)

    def duration(size: int) -> float:
        num_blocks = num_series * math.ceil(num_seeds / size)
        return math.ceil(num_blocks / num_workers) * (_FIXED + _PER_REPLICATE * size)

    return min(range(1, num_seeds + 1), key=lambda size: (duration(size), size))


def changed(definition: ExperimentDefinition, setting: Setting) -> ExperimentDefinition:
    r"""An experiment as a setting changes it."""
    if not setting:
        return definition
    strategy, problem = dict(setting.get("strategy", {})), dict(setting.get("problem", {}))
    strategies = {
        label: partial(build, **strategy) for label, build in definition.strategies.items()
    }
    return dataclasses.replace(
        definition,
        num_initial=setting.get("num_initial", definition.num_initial),
        num_repeats=setting.get("num_repeats", definition.num_repeats),
        problem=partial(definition.problem, **problem) if problem else definition.problem,
        strategies=strategies if strategy else definition.strategies,
        settings={**definition.settings, "changed": dict(setting)},
    )


def experiments_of(modules: Sequence[str]) -> tuple[ExperimentDefinition, ...]:
    r"""Import modules and `.py` files, and collect their `EXPERIMENTS`."""
    found: list[ExperimentDefinition] = []
    for name in modules:
        try:
            _look_in_current_folder()
            module = (
                _module_of(Path(name)) if name.endswith(".py") else importlib.import_module(name)
            )
            found += module.EXPERIMENTS
        except (ImportError, OSError, AttributeError, SystemExit) as error:
            got = repr(error) if isinstance(error, SystemExit) else error
            raise ValueError(
                f"Expected {name!r} to be a module with EXPERIMENTS. Got {got}."
            ) from error
    return tuple(found)


def _module_of(path: Path) -> Any:
    name = f"botorch_risk_campaign_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    _look_in_current_folder()
    spec.loader.exec_module(module)
    return module


def _look_in_current_folder() -> None:
    r"""Allow imports from the current folder, after all other places."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)


def _values_of(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return json.loads(text)
    if path.suffix in (".yaml", ".yml"):
        import yaml

        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(f"Expected {path} to be YAML. Got {error}.") from error
    raise ValueError(f"Expected a .yaml, .json or .py file. Got {path}.")


def _check_keys(what: str, values: Any, known: Sequence[str]) -> None:
    if not isinstance(values, Mapping):
        raise ValueError(f"Expected {what} to have some of the keys {list(known)}. Got {values!r}.")
    if unknown := [key for key in values if key not in known]:
        raise ValueError(f"Expected {what} to have keys of {list(known)}. Got {unknown}.")


def _check_integers(what: str, **values: Any) -> None:
    for name, value in values.items():
        if not (value is None and name == "num_rounds") and not isinstance(value, int):
            raise ValueError(f"Expected {what} to have whole numbers. Got {name}={value!r}.")


def _as_names(name: str, values: Any) -> tuple[str, ...]:
    listed = (values,) if isinstance(values, str) else tuple(values)
    if not all(isinstance(each, str) for each in listed):
        raise ValueError(f"Expected `{name}` to be names. Got {listed}.")
    return listed


def _short(module: str) -> str:
    return Path(module).name if module.endswith(".py") else module
