r"""The commands of `botorch-risk campaign`."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from botorch_risk.extras import MissingExtraError
from botorch_risk_bench.printed import printable

if TYPE_CHECKING:
    from botorch_risk_bench.campaigns import Campaign, Options
    from botorch_risk_bench.campaigns.engines import Engine
    from botorch_risk_bench.reports import Regrets

HELP_TOO = {"help_option_names": ["-h", "--help"]}
Number = functools.partial(typer.Option, metavar="NUMBER")
File = functools.partial(typer.Argument, metavar="FILE")
Folder = functools.partial(typer.Option, metavar="FOLDER")
Name = functools.partial(typer.Option, metavar="NAME")

app = typer.Typer(
    help="Many experiments, strategies, settings and seeds, on one machine or on many.",
    epilog="Example: botorch-risk campaign run first.yaml --workers 4, then botorch-risk campaign "
    "table first.sqlite",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=HELP_TOO,
)
ENGINES = ("processes", "serial", "dask", "slurm", "jobs")
Description = Annotated[Path, File(help="A .yaml, .json or .py file; see the docs.")]
Store = Annotated[Path, File(help="The file that `campaign run --out` wrote.")]
EngineName = Annotated[
    str, Name("--engine", help=f"{', '.join(ENGINES)} (submitit on this machine).")
]
Workers = Annotated[int, Number(help="The number of processes or jobs.")]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="A running Dask scheduler; default: one for this campaign."
    ),
]
JobFolder = Annotated[
    Path, Folder(help="A folder for jobs, on a file system that all nodes share.")
]
Parameter = Annotated[
    list[str],
    typer.Option(metavar="NAME=VALUE", help="A job's parameter; may be repeated. See submitit."),
]
Journals = Annotated[
    Path | None,
    Folder(help="The folder in which workers save each finished round, so a crash loses nothing."),
]
ReportSeconds = Annotated[float, Number(help="How often a worker reports.")]
Device = Annotated[list[str], Name(help="A device for each worker; may be repeated.")]
RoundSeconds = Annotated[float | None, Number(help="The most seconds of a round.")]
MemoryLimit = Annotated[int | None, Number(help="The memory of a worker, in MiB (Linux only).")]


@contextmanager
def one_line_errors(*kinds: type[Exception]) -> Iterator[None]:
    r"""Report errors of these kinds in one line on stderr, with exit code 2."""
    try:
        yield
    except kinds as error:
        echo(f"Error: {' '.join(str(error).split())}", err=True)
        raise SystemExit(2) from error


def echo(text: object, err: bool = False, kept: str = "") -> None:
    r"""Print a line that may quote what others have written; `kept="\\n"` prints a page."""
    typer.echo(printable(text, kept), err=err)


def _where_and_how(
    engine: EngineName = "processes",
    workers: Workers = 2,
    address: Address = None,
    job_folder: JobFolder = Path("jobs"),
    parameter: Parameter = [],  # noqa: B006
    journals: Journals = None,
    report_seconds: ReportSeconds = 30.0,
    device: Device = ["cpu"],  # noqa: B006
    memory_limit: MemoryLimit = None,
    round_seconds: RoundSeconds = None,
) -> tuple[Any, Any]:
    r"""Build the engine and the options of a campaign from the command line."""
    from botorch_risk_bench.campaigns import Options

    limit = None if memory_limit is None else memory_limit * 2**20
    where = _engine(engine, workers, address, job_folder, parameter)
    return where, Options(report_seconds, journals, tuple(device), limit, round_seconds)


def _with_engine(command: Callable[..., None]) -> Callable[..., None]:
    r"""Pass `engine` and `options` to a command, and let the command line set them."""
    shared = inspect.signature(_where_and_how, eval_str=True)
    signature = inspect.signature(command, eval_str=True)
    own = [each for each in signature.parameters.values() if each.annotation is not Any]

    @functools.wraps(command)
    def called(**values: Any) -> None:
        with one_line_errors(ValueError):
            where, how = _where_and_how(**{name: values.pop(name) for name in shared.parameters})
        command(engine=where, options=how, **values)

    parameters = sorted(
        [*own, *shared.parameters.values()], key=lambda each: bool(each.default is not each.empty)
    )
    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return called


@app.command(epilog="Example: botorch-risk campaign run first.yaml --workers 4")
@_with_engine
def run(
    engine: Any,
    options: Any,
    campaign: Description,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Results, resumed if they exist; default: CAMPAIGN.sqlite."
        ),
    ] = None,
    extend: Annotated[
        bool, typer.Option("--extend", help="Take more rounds, seeds or series than before.")
    ] = False,
    experiment: Annotated[list[str], Name(help="Only these experiments; may be repeated.")] = [],  # noqa: B006
    seeds: Annotated[int | None, Number(help="The number of seeds to run, at most.")] = None,
    rounds: Annotated[int | None, Number(help="The number of rounds to run, at most.")] = None,
) -> None:
    r"""Run the campaign of a file; started again, it resumes."""
    from botorch_risk_bench.campaigns import Campaign

    with one_line_errors(ValueError):
        found = Campaign.read(campaign).part(experiment, seeds, rounds)
    _run(found, out or Path(f"{campaign.stem}.sqlite"), engine, options, extend)


@app.command(epilog="Example: botorch-risk campaign resume first.sqlite --failed")
@_with_engine
def resume(
    engine: Any,
    options: Any,
    path: Store,
    failed: Annotated[bool, typer.Option("--failed", help="Run only the failed blocks.")] = False,
) -> None:
    r"""Resume a campaign from its store, which holds its description and names its modules."""
    from botorch_risk_bench.campaigns import CampaignStore

    with one_line_errors(ValueError), CampaignStore(path) as store:
        campaign = store.campaign
    if campaign.modules:
        names = [
            str(Path(each).resolve()) if each.endswith(".py") else each for each in campaign.modules
        ]
        echo(f"Running the modules that {path} names: {', '.join(names)}.", err=True)
    _run(campaign, path, engine, dataclasses.replace(options, only_failed=failed), extend=False)


@app.command(epilog="Example: botorch-risk campaign status first.sqlite")
def status(path: Store) -> None:
    r"""Show how far each series is, what failed and why, and the time it took."""
    from botorch_risk_bench.campaigns import CampaignStore

    with one_line_errors(ValueError), CampaignStore(path) as store:
        blocks, found, name = store.blocks(), store.survey(), store.campaign.name
    again, failed = set(found.to_play_again), found.failures
    last_rounds = {block: found.last_rounds.get(block, -1) for block in blocks}
    done = sum(last == b.num_rounds and b not in again for b, last in last_rounds.items())
    echo(f"{name}: {done} of {len(blocks)} blocks done, {len(failed)} failed")
    took = [report[5:] for report in found.reports]  # a machine, seconds and bytes
    hosts, seconds, peaks = zip(*took, strict=True) if took else ((), (), ())
    echo(
        f"    {sum(seconds):.1f} s of CPU time, at most {max(peaks, default=0) / 2**20:.0f} "
        f"MiB, {len(set(hosts))} kinds of machine"
    )
    for series in dict.fromkeys(block.series for block in blocks):
        parts = [block for block in blocks if block.series == series]
        rounds = sum((last_rounds[block] + 1) * len(block.seeds) for block in parts)
        total = sum((block.num_rounds + 1) * len(block.seeds) for block in parts)
        echo(f"    {', '.join(series)}: {rounds:,} of {total:,} rounds")
    for block, failure in failed.items():
        echo(f"    failed: {block}, round {failure.round}: {failure.cause}")
    if failed:
        echo(f"Run them again: botorch-risk campaign resume {path} --failed")
    for each in found.damages:
        echo(f"    damaged: {each}")
    if found.damages:
        echo(f"Play them again: botorch-risk campaign resume {path}")
        raise typer.Exit(2)


@app.command(epilog="Example: botorch-risk campaign table first.sqlite --to first.csv")
def table(
    path: Store,
    to: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write every round to this comma-separated file."),
    ] = None,
) -> None:
    r"""Show the regret of each experiment; with --to, write one line per round."""
    from botorch_risk_bench.campaigns import CampaignStore
    from botorch_risk_bench.reports.summary import experiment_pages, write_table

    with one_line_errors(ValueError, OSError), CampaignStore(path) as store:
        if to is not None:
            echo(f"{to}: {write_table(store, to):,} rounds")
            return
        damaged = []
        for page in experiment_pages(store):
            if isinstance(page, str):
                echo(page, kept="\n")
            else:
                damaged.append(str(page))
        if damaged:
            raise ValueError(" ".join(dict.fromkeys(damaged)))


@app.command(epilog="Example: botorch-risk campaign board first.sqlite --to pages")
def board(
    paths: Annotated[list[Path], File(help="Stores, or a regrets.json.gz written by --to.")],
    by: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Group experiments by this key of their settings."),
    ] = None,
    strategy: Annotated[
        list[str], Name(help="May be repeated, with the reference first; default: all strategies.")
    ] = [],  # noqa: B006
    without: Annotated[list[str], Name(help="Leave this group out; may be repeated.")] = [],  # noqa: B006
    baseline: Annotated[
        str | None, Name(help="Compare the leads over this strategy as ratios, by the held share.")
    ] = None,
    to: Annotated[
        Path | None, Folder(help="The folder for board.md, board.png and regrets.json.gz.")
    ] = None,
) -> None:
    r"""Show which strategy reaches how many targets, how soon, and holds them to the end."""
    from functools import reduce
    from operator import add

    from botorch_risk_bench.campaigns.whole_files import replacing
    from botorch_risk_bench.reports import board_markdown, plot_board, read_board

    with one_line_errors(ValueError, OSError):
        regrets = reduce(add, map(_regrets, paths))
        found = read_board(regrets, by, strategy, without)
        page = board_markdown(found, baseline)
        if to is None:
            echo(page, kept="\n")
            return
        with replacing(to / "board.md") as markdown, replacing(to / "board.png") as picture:
            markdown.write_text(page, encoding="utf-8")
            plot_board(found).savefig(picture, dpi=110, format="png")
        written = "board.md, board.png"
        if len(paths) > 1 or paths[0].suffix != ".gz":  # not what was read
            regrets.write(to / "regrets.json.gz")
            written += ", regrets.json.gz"
        typer.echo(f"{to}/{written}: {len(found.entries)} experiments")


@app.command(epilog="Example: botorch-risk campaign plan first.yaml --workers 4")
def plan(campaign: Description, workers: Workers = 2) -> None:
    r"""Show the blocks of a campaign, and the block size that would finish it soonest."""
    from botorch_risk_bench.campaigns import Campaign, best_block_size
    from botorch_risk_bench.campaigns.extras import check_extras
    from botorch_risk_bench.campaigns.store import identity_of

    with one_line_errors(ValueError, MissingExtraError):
        found = Campaign.read(campaign)
        check_extras(found)
        identity_of(found, "cpu")  # refuses what `run` refuses
        blocks = found.blocks()
        series = {block.series for block in blocks}
        seeds = max(each.num_seeds for each in found.series)
        best = best_block_size(seeds, len(series), workers)
    typer.echo(f"{found.name}: {len(series)} series, {len(blocks)} blocks of {found.block_size}")
    typer.echo(f"For {workers} workers, block_size: {best} would end soonest.")


def _run(campaign: Campaign, path: Path, engine: Engine, options: Options, extend: bool) -> None:
    from botorch_risk_bench.campaigns import run_campaign

    with one_line_errors(ValueError, MissingExtraError, OSError, RuntimeError):
        try:
            failed = run_campaign(campaign, path, engine, options, extend)
        except KeyboardInterrupt:
            echo(f"Interrupted. Go on with: botorch-risk campaign resume {path}", err=True)
            raise SystemExit(130) from None
    if failed:
        typer.echo(f"{failed} blocks failed; see: botorch-risk campaign status {path}", err=True)
        raise typer.Exit(1)
    typer.echo(f"Done: {path}")


def _regrets(path: Path) -> Regrets:
    from botorch_risk_bench.campaigns import CampaignStore
    from botorch_risk_bench.reports import Regrets

    if path.suffix == ".gz":
        return Regrets.read(path)
    with CampaignStore(path) as store:
        return Regrets.of(store)


def _engine(
    name: str, workers: int, address: str | None, jobs: Path, parameters: list[str]
) -> Engine:
    from botorch_risk_bench.campaigns import Dask, Processes, Serial, Submitit

    if name not in ENGINES:
        raise ValueError(f"Expected `--engine` to be one of {', '.join(ENGINES)}. Got {name!r}.")
    if name in ("slurm", "jobs"):
        given: dict[str, Any] = {}
        for each in parameters:
            key, equals, value = each.partition("=")
            if not equals:
                raise ValueError(f"Expected `--parameter NAME=VALUE`. Got {each!r}.")
            given[key] = int(value) if value.isdigit() else value
        return Submitit(jobs, workers, "slurm" if name == "slurm" else "local", given)
    if name == "dask":
        return Dask(workers, address)
    return Serial() if name == "serial" else Processes(workers)
