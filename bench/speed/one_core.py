r"""The speed figures of one core of the CPU, one after another."""

from bench.speed import (
    botorch_loop,
    branching,
    constrained_round,
    environment_step,
    fit_quality,
    floor,
    given_up,
    large_fits,
    long_loops,
    mixed_search,
    multistart,
    multistart_quality,
    pseudo_data,
    rahbo_loop,
    readings,
    risk_measures,
    robust_acquisition,
    robustness,
    value_at_risk_step,
)


def main(quick: bool) -> None:
    fit_quality.main(count=20 if quick else 200)
    large_fits.main(quick=True)
    botorch_loop.main(repeats=1 if quick else 9)
    given_up.main(1 if quick else len(given_up.LOOPS))
    multistart_quality.main(count=10 if quick else 100)
    multistart.main(repeats=1 if quick else 5)
    mixed_search.main(repeats=1 if quick else 5)
    constrained_round.main(repeats=1 if quick else 5)
    rahbo_loop.main(plain=2 if quick else 32)
    readings.main(repeats=1 if quick else 5)
    risk_measures.main()
    pseudo_data.main(repeats=1 if quick else 9)
    branching.main(replicates=2 if quick else 16)
    long_loops.main((20, 40) if quick else long_loops.MILESTONES)
    robustness.main(repeats=1 if quick else 5)
    value_at_risk_step.main(repeats=1 if quick else 5)
    environment_step.main(repeats=1 if quick else 5)
    robust_acquisition.main(data_sets=1 if quick else 3)
    floor.main(quick)
