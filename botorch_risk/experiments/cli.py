r"""The command `botorch-risk`: run an experiment, look at it, plot it.

Example:
    botorch-risk run branin --replicates 30 --rounds 50 --out branin.sqlite
    botorch-risk status branin.sqlite
    botorch-risk plot branin.sqlite --to pictures

A script of your own that calls `register(...)` and then `main()` is this command with
your experiments in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from botorch_risk.experiments.campaign import Campaign
from botorch_risk.experiments.extras import require_extra
from botorch_risk.experiments.model_picture import plot_final_model
from botorch_risk.experiments.plots import plot_regret, save_png
from botorch_risk.experiments.registry import experiments, get_experiment
from botorch_risk.experiments.serialization import StoreError
from botorch_risk.experiments.store import ExperimentStore
from botorch_risk.experiments.summary import failed_points, regret_curves, summary_markdown

typer = require_extra("typer")
app = typer.Typer(
    help="Experiments under risk that can be stopped at any moment and resumed.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
StorePath = Annotated[Path, typer.Argument(help="The file that `run --out` wrote.")]


@app.command("list")
def list_experiments() -> None:
    r"""Lists the experiments and their strategies."""
    for definition in experiments().values():
        typer.echo(f"{definition.name}: {definition.description}")
        typer.echo(f"    strategies: {', '.join(definition.strategies)}")
        typer.echo(f"    rounds: {definition.num_rounds}, repeats: {definition.num_repeats}")


@app.command()
def run(
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
    with _one_line_errors(ValueError):
        if jobs < 1:
            raise ValueError(f"Expected `--jobs` to be at least 1. Got {jobs=}.")
        seeds = range(seed, seed + replicates)
        campaign = Campaign(get_experiment(name), out, seeds, strategy, rounds, device)
        campaign.prepare()
    with _one_line_errors(StoreError):
        campaign.run(num_jobs=jobs)
    typer.echo(f"Done: {out}")


@app.command()
def status(path: StorePath) -> None:
    r"""Shows how far each strategy has come."""
    with _one_line_errors(StoreError), ExperimentStore(path) as store:
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
    path: StorePath,
    to: Annotated[Path, typer.Option(help="The folder of the pictures.")] = Path("."),
    log: Annotated[bool, typer.Option(help="Logarithmic axis for simple regret.")] = False,
) -> None:
    r"""Writes cumulative_regret.png, simple_regret.png and summary.md; in 1-D the models too."""
    with _one_line_errors(ValueError), ExperimentStore(path) as store:
        curves, page, identity = regret_curves(store), summary_markdown(store), store.identity
        definition = get_experiment(identity["experiment"])
        models = {label: plot_final_model(store, definition, label) for label in store.labels()}
    to.mkdir(parents=True, exist_ok=True)
    for label, figure in models.items():
        if figure is not None:
            typer.echo(save_png(figure, to / f"{label}_model.png"))
    title = f"{identity['experiment']}, {len(identity['seeds'])} seeds"
    for name, first_round, log_scale in (("cumulative", 1, False), ("simple", 0, log)):
        figure = plot_regret(
            {label: getattr(curve, name) for label, curve in curves.items()},
            f"{name} regret of {identity['objective']}",
            first_round,
            log_scale,
            title,
        )
        typer.echo(save_png(figure, to / f"{name}_regret.png"))
    (to / "summary.md").write_text(page, encoding="utf-8")
    typer.echo(to / "summary.md")


def main() -> None:
    r"""Runs the command line."""
    app()


@contextmanager
def _one_line_errors(kind: type[ValueError]) -> Iterator[None]:
    r"""Bad input is one line on the error stream and the exit code 2."""
    try:
        yield
    except kind as error:
        typer.echo(f"Error: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(2) from error


if __name__ == "__main__":
    main()
