r"""The command `botorch-risk`: run an experiment, look at it, plot it.

Example:
    botorch-risk list branin
    botorch-risk run branin --seeds 30 --rounds 50 --workers 2
    botorch-risk status branin.sqlite
    botorch-risk plot branin.sqlite --to pictures

A script of your own that calls `main([my_experiment])` is this command with your experiments
in it. What needs PyTorch is imported by the command that needs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from botorch_risk.extras import MissingExtraError
from botorch_risk_bench.campaign_commands import HELP_TOO, File, Folder, echo, one_line_errors
from botorch_risk_bench.campaign_commands import app as campaign_app

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from typer import Context

    from botorch_risk_bench.campaigns import ExperimentRecords
    from botorch_risk_bench.experiments import ExperimentDefinition

if not TYPE_CHECKING:
    Context = typer.Context  # its `obj` are the experiments that `main` was given
app = typer.Typer(
    help="Experiments under risk that can be stopped at any moment and resumed.",
    epilog="Example: botorch-risk run branin --seeds 30 --rounds 50, then botorch-risk plot "
    "branin.sqlite",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=HELP_TOO,
)
app.add_typer(campaign_app, name="campaign")
StorePath = Annotated[Path, File(help="The file that `run --out` wrote.")]


def _show_version(asked: bool) -> None:
    if asked:
        from botorch_risk import __version__

        typer.echo(f"botorch-risk {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None: ...


@app.command("list", epilog="Example: botorch-risk list branin")
def list_experiments(
    context: Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORD]...", help="Words of its name, its description or a strategy."
        ),
    ] = None,
) -> None:
    r"""List the experiments and their strategies: all, or those with every word."""
    from botorch_risk_bench.experiments.registry import experiments

    found = 0
    for definition in experiments(context.obj or ()).values():
        text = " ".join([definition.name, definition.description, *definition.strategies]).lower()
        if not all(word.lower() in text for word in words or ()):
            continue
        found += 1
        typer.echo(f"{definition.name}: {definition.description}")
        typer.echo(f"    strategies: {', '.join(definition.strategies)}")
        typer.echo(f"    rounds: {definition.num_rounds}, repeats: {definition.num_repeats}")
    if not found:
        with one_line_errors(ValueError):
            raise ValueError(f"No experiment has all of the words: {' '.join(words or ())}.")


@app.command(epilog="Example: botorch-risk run branin --seeds 30 --rounds 50 --workers 2")
def run(
    context: Context,
    name: Annotated[str, typer.Argument(metavar="EXPERIMENT", help="Its name; see `list`.")],
    strategy: Annotated[
        list[str], typer.Option(metavar="NAME", help="May be repeated; default: all.")
    ] = [],  # noqa: B006
    seeds: Annotated[int, typer.Option(metavar="NUMBER", help="The number of seeds.")] = 10,
    first_seed: Annotated[
        int, typer.Option(metavar="NUMBER", help="The first seed; each next one is one more.")
    ] = 0,
    rounds: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help="After the initial design; default: see `list`."),
    ] = None,
    device: Annotated[
        str, typer.Option(metavar="NAME", help="The device of the strategies: cpu, cuda, cuda:1.")
    ] = "cpu",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Results, resumed if they exist; default: EXPERIMENT.sqlite."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(metavar="NUMBER", help="The number of processes.")] = 1,
) -> None:
    r"""Run strategies of an experiment, or resume them from `--out`."""
    from botorch_risk_bench.campaigns import run_experiment

    path, own = out or Path(f"{name}.sqlite"), context.obj or ()
    with one_line_errors(ValueError, MissingExtraError, RuntimeError):
        try:
            run_experiment(name, path, seeds, first_seed, strategy, rounds, device, workers, own)
        except KeyboardInterrupt:
            echo("Interrupted. Type the same command again to go on.", err=True)
            raise SystemExit(130) from None
    typer.echo(f"Done: {path}. Next: botorch-risk plot {path}")


@app.command(epilog="Example: botorch-risk status branin.sqlite")
def status(path: StorePath) -> None:
    r"""Show the progress of each strategy."""
    from botorch_risk_bench.campaigns import CampaignStore, ExperimentRecords
    from botorch_risk_bench.reports.summary import failed_points

    with one_line_errors(ValueError), CampaignStore(path) as store:
        records = ExperimentRecords(store)
        seeds = records.identity["seeds"]
        name = records.identity["experiment"]
        echo(f"{name}: {len(seeds)} seeds from {seeds[0]}")
        for label in records.labels():
            rounds = records.rounds(label)
            seconds = sum(part for record in rounds for part in record.seconds)
            echo(
                f"    {label}: {len(rounds) - 1} rounds after the initial design, "
                f"{seconds:.1f} s, {failed_points(rounds)} failed points"
            )


@app.command(epilog="Example: botorch-risk plot branin.sqlite --to pictures")
def plot(
    context: Context,
    path: StorePath,
    to: Annotated[Path, Folder(help="For the pictures.")] = Path("."),
    log: Annotated[bool, typer.Option(help="Logarithmic axis for simple regret.")] = False,
    experiment: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which one, of a campaign with several.")
    ] = None,
    setting: Annotated[str, typer.Option(metavar="NAME", help="Of the campaign.")] = "default",
) -> None:
    r"""Write summary.md and pictures: regret by round, or F1 by cost for level sets.

    The pictures are cumulative_regret.png and simple_regret.png, and for a single input the models
    too; for several objectives, only simple_regret.png, of the hypervolume; for a level set,
    f1.png. For your own experiment in a campaign they are the two of the regret: the store has all
    that they need, and its modules are not run.
    """
    from botorch_risk_bench.campaigns import CampaignStore, ExperimentRecords
    from botorch_risk_bench.campaigns.whole_files import write_text
    from botorch_risk_bench.experiments.registry import experiments
    from botorch_risk_bench.reports.plots import save_png

    with one_line_errors(ValueError), CampaignStore(path) as store:
        records = ExperimentRecords(store, experiment, setting)
        identity, definition = records.identity, None
        if "changed" not in identity["settings"]:  # in a setting, by what is stored alone
            definition = experiments(context.obj or ()).get(identity["experiment"])
        if definition is not None and definition.threshold is not None:
            pictures, page = _level_set_pictures(records, definition)
        else:
            pictures, page = _regret_pictures(records, definition, log)
    for name, figure in pictures.items():
        typer.echo(save_png(figure, to / f"{name}.png"))
    write_text(to / "summary.md", page)
    typer.echo(to / "summary.md")


def main(own: Iterable[ExperimentDefinition] = ()) -> None:
    r"""Run the command line.

    Args:
        own: Further experiments, in addition to the package's.
    """
    app(obj=tuple(own))


def _title(identity: dict[str, Any]) -> str:
    return f"{identity['experiment']}, {len(identity['seeds'])} seeds"


def _regret_pictures(
    store: ExperimentRecords, definition: ExperimentDefinition | None, log: bool
) -> tuple[dict[str, Figure], str]:
    from botorch_risk_bench.experiments.problem import ProblemWithConstraints
    from botorch_risk_bench.reports.constraint_summary import constraint_markdown
    from botorch_risk_bench.reports.plots import plot_final_model, plot_regret
    from botorch_risk_bench.reports.summary import (
        AGAINST_BEST_SEEN,
        regret_curves,
        summary_markdown,
    )

    curves, page, identity = regret_curves(store), summary_markdown(store), store.identity
    pictures = {}
    if definition is not None:
        if isinstance(definition.problem(), ProblemWithConstraints):
            page += f"\n## Constraints\n\n{constraint_markdown([store], definition)}"
        models = {label: plot_final_model(store, definition, label) for label in store.labels()}
        pictures = {f"{label}_model": each for label, each in models.items() if each is not None}
    against = AGAINST_BEST_SEEN if identity["optimal_value"] is None else ""
    names = next(iter(curves.values())).names
    for name, first_round, log_scale in (("cumulative", 1, False), ("simple", 0, log)):
        if name not in names:
            continue
        pictures[f"{name}_regret"] = plot_regret(
            {label: getattr(curve, name) for label, curve in curves.items()},
            f"{name} regret of {identity['objective']}",
            first_round,
            log_scale,
            _title(identity) + (f"; regret{against}" if against else ""),
        )
    return pictures, page


def _level_set_pictures(
    store: ExperimentRecords, definition: ExperimentDefinition
) -> tuple[dict[str, Figure], str]:
    from botorch_risk_bench.reports.level_sets import level_set_markdown, store_curves
    from botorch_risk_bench.reports.plots import plot_scores

    curves, identity = store_curves(store, definition), store.identity
    figure = plot_scores(curves, identity["objective"], _title(identity))
    return {"f1": figure}, level_set_markdown(curves, identity)


if __name__ == "__main__":
    main()
