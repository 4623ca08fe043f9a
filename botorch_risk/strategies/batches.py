r"""The replicates in batches, each with the view of it that the method is given."""

from dataclasses import dataclass, replace

from botorch_risk.strategies.history import History, is_everyone
from botorch_risk.strategies.method import Method, State, View, Views, fits_of, with_rows
from botorch_risk.strategies.space import Space


@dataclass(frozen=True)
class Batches:
    r"""How replicates are grouped into batches that a method can treat as one.

    Args:
        space: The space of points.
        method: The method, whose `group_by` groups the replicates.
        batch_size: The number q of points to propose.
    """

    space: Space
    method: Method
    batch_size: int

    def views(self, history: History, state: State, before: Views = ()) -> Views:
        r"""The replicates of each batch, with their view; `before` has the beliefs so far."""
        known = {tuple(replicates): view for replicates, view in before}
        groups: dict[tuple[int, ...], list[int]] = {}
        is_known = history.is_known.tolist()
        keys = zip(
            self.method.group_by(history).tolist(), history.num_running.tolist(), strict=True
        )
        for replicate, (key, running) in enumerate(keys):
            if is_known[replicate]:
                groups.setdefault((*key, running), []).append(replicate)
        return [
            (replicates, self._view(replicates, history, state, known.get(tuple(replicates))))
            for replicates in groups.values()
        ]

    def _view(
        self, replicates: list[int], history: History, state: State, before: View | None = None
    ) -> View:
        return View(
            self.space.of(replicates),
            history.of(replicates),
            _part(state, replicates, len(history.seeds)),
            self.batch_size,
            self.method,
            None if before is None else before.known_belief,
        )

    def learned(self, history: History, views: Views, before: State) -> State:
        r"""The method's state after the last rows, including replicates without a view."""
        count = len(history.seeds)
        nothing = [r for r, known in enumerate(history.is_known.tolist()) if not known]
        learnt = [(replicates, self.method.learn(view)) for replicates, view in views]
        if nothing:
            learnt.append((nothing, self.method.learn(self._view(nothing, history, before))))
        names, state = [*fits_of((), before, count)], before
        for replicates, part in learnt:
            names += part
            state = with_rows(state, replicates, part, count)
        return {name: state[name] for name in names}


def recorded(history: History, views: Views, first: int) -> History:
    r"""The history with the views' records of its rows from `first` on."""
    records = history.recorded.clone()
    for replicates, view in views:
        found = view.method.record(view, history.X[replicates, first:])
        if found is not None:
            records[replicates, first:] = found
    return replace(history, recorded=records)


def renewed(views: Views, history: History, state: State) -> Views:
    r"""The views with new records and states; beliefs are kept, as the data are the same."""
    return [
        (
            replicates,
            view.renewed(history.of(replicates), _part(state, replicates, len(history.seeds))),
        )
        for replicates, view in views
    ]


def _part(state: State, replicates: list[int], num_replicates: int) -> State:
    if is_everyone(replicates, num_replicates):
        return dict(state)
    return {name: value[replicates] for name, value in state.items()}
