r"""The commands of `botorch-risk`. What needs PyTorch is imported by the command that needs it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from botorch_risk_bench.experiments.campaigns.commands import app as campaign_app
from botorch_risk_bench.experiments.one_line_errors import one_line_errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from typer import Context

    from botorch_risk_bench.experiments.definition import ExperimentDefinition
    from botorch_risk_bench.experiments.store import ExperimentStore

if not TYPE_CHECKING:
    Context = typer.Context  # its `obj` are the experiments that `main` was given
app = typer.Typer(
    help="Experiments under risk that can be stopped at any moment and resumed.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(campaign_app, name="campaign")
StorePath = Annotated[Path, typer.Argument(help="The file that `run --out` wrote.")]


@app.command("list")
def list_experiments(context: Context) -> None:
    r"""Lists the experiments and their strategies."""
    from botorch_risk_bench.experiments.registry import experiments

    for definition in experiments(context.obj or ()).values():
        typer.echo(f"{definition.name}: {definition.description}")
        typer.echo(f"    strategies: {', '.join(definition.strategies)}")
        typer.echo(f"    rounds: {definition.num_rounds}, repeats: {definition.num_repeats}")


@app.command()
def run(
    context: Context,
    name: Annotated[str, typer.Argument(help="The experiment; see `list`.")],
    strategy: Annotated[list[str], typer.Option(help="May be repeated; default: all.")] = [],  # noqa: B006
    replicates: Annotated[int, typer.Option(help="The number R of seeds.")] = 10,
    rounds: Annotated[
        int | None, typer.Option(help="Rounds after the initial design; default: see `list`.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The first of the seeds s, ..., s + R - 1.")] = 0,
    device: Annotated[str, typer.Option(help="Where the strategies compute.")] = "cpu",
    out: Annotated[Path, typer.Option(help="The results; resumed if there.")] = Path(
        "results.sqlite"
    ),
    jobs: Annotated[int, typer.Option(help="The number of processes.")] = 1,
) -> None:
    r"""Runs strategies of an experiment, or resumes them from `--out`."""
    from botorch_risk_bench.experiments.experiment_run import ExperimentRun
    from botorch_risk_bench.experiments.registry import get_experiment
    from botorch_risk_bench.experiments.serialization import StoreError

    with one_line_errors(ValueError):
        if jobs < 1:
            raise ValueError(f"Expected `--jobs` to be at least 1. Got {jobs=}.")
        definition = get_experiment(name, context.obj or ())
        seeds = range(seed, seed + replicates)
        campaign = ExperimentRun(definition, out, seeds, strategy, rounds, device)
        campaign.prepare()
    with one_line_errors(StoreError):
        campaign.run(num_jobs=jobs)
    typer.echo(f"Done: {out}")


@app.command()
def status(path: StorePath) -> None:
    r"""Shows how far each strategy has come."""
    from botorch_risk_bench.experiments.serialization import StoreError
    from botorch_risk_bench.experiments.store import ExperimentStore
    from botorch_risk_bench.experiments.summary import failed_points

    with one_line_errors(StoreError), ExperimentStore(path) as store:
        identity = store.identity
        seeds = identity["seeds"]
        typer.echo(f"{identity['experiment']}: {len(seeds)} replicates, seeds from {seeds[0]}")
        for label in store.labels():
            records = store.rounds(label)
            seconds = sum(part or 0.0 for record in records for part in record.seconds)
            typer.echo(
                f"    {label}: {store.progress(label)[0]} rounds after the initial design, "
                f"{seconds:.1f} s, {failed_points(records)} failed points"
            )


@app.command()
def plot(
    context: Context,
    path: StorePath,
    to: Annotated[Path, typer.Option(help="The folder of the pictures.")] = Path("."),
    log: Annotated[bool, typer.Option(help="Logarithmic axis for simple regret.")] = False,
) -> None:
    r"""Writes summary.md and pictures: regret by round, or F1 by cost for level sets.

    The pictures are cumulative_regret.png and simple_regret.png, and for a single input the
    models too; of several objectives, simple_regret.png alone, of the hypervolume; where a level
    set is sought, f1.png.
    """
    from botorch_risk_bench.experiments.plots import save_png
    from botorch_risk_bench.experiments.registry import get_experiment
    from botorch_risk_bench.experiments.store import ExperimentStore

    with one_line_errors(ValueError), ExperimentStore(path) as store:
        definition = get_experiment(store.identity["experiment"], context.obj or ())
        if definition.threshold is not None:
            pictures, page = _level_set_pictures(store, definition)
        else:
            pictures, page = _regret_pictures(store, definition, log)
    to.mkdir(parents=True, exist_ok=True)
    for name, figure in pictures.items():
        typer.echo(save_png(figure, to / f"{name}.png"))
    (to / "summary.md").write_text(page, encoding="utf-8")
    typer.echo(to / "summary.md")


def _title(identity: dict[str, Any]) -> str:
    return f"{identity['experiment']}, {len(identity['seeds'])} seeds"


def _regret_pictures(
    store: ExperimentStore, definition: ExperimentDefinition, log: bool
) -> tuple[dict[str, Figure], str]:
    from botorch_risk_bench.experiments.constraint_summary import constraint_markdown
    from botorch_risk_bench.experiments.model_picture import plot_final_model
    from botorch_risk_bench.experiments.plots import plot_regret
    from botorch_risk_bench.experiments.problem import ProblemWithConstraints
    from botorch_risk_bench.experiments.summary import regret_curves, summary_markdown

    curves, page, identity = regret_curves(store), summary_markdown(store), store.identity
    if isinstance(definition.problem(), ProblemWithConstraints):
        page += f"\n## Constraints\n\n{constraint_markdown([store], definition)}"
    models = {label: plot_final_model(store, definition, label) for label in store.labels()}
    pictures = {f"{label}_model": each for label, each in models.items() if each is not None}
    names = next(iter(curves.values())).names
    for name, first_round, log_scale in (("cumulative", 1, False), ("simple", 0, log)):
        if name not in names:
            continue
        pictures[f"{name}_regret"] = plot_regret(
            {label: getattr(curve, name) for label, curve in curves.items()},
            f"{name} regret of {identity['objective']}",
            first_round,
            log_scale,
            _title(identity),
        )
    return pictures, page


def _level_set_pictures(
    store: ExperimentStore, definition: ExperimentDefinition
) -> tuple[dict[str, Figure], str]:
    from botorch_risk_bench.experiments.level_set_summary import level_set_markdown, store_curves
    from botorch_risk_bench.experiments.plots import plot_scores

    curves, identity = store_curves(store, definition), store.identity
    figure = plot_scores(curves, identity["objective"], _title(identity))
    return {"f1": figure}, level_set_markdown(curves, identity)
