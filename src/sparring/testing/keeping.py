"""What a keeping rule must keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparring.config.plugins.registry import Bound
from sparring.core.refs import LEARNER, snapshot
from sparring.core.rng import Stream
from sparring.league.keeping.base import KeepRequest
from sparring.league.payoffs import Payoffs, Results, Row
from sparring.testing.given import bound, same

MOST = 9  # snapshots that are asked about


def keep_request(
    steps: Sequence[int], keep: int, *, payoffs: Payoffs | None = None, seed: int = 0
) -> KeepRequest:
    """Return a question to a keeping rule, for tests.

    Args:
        steps: that the snapshots were taken at, ascending; the last one is new.
        keep: how many may stay.
        payoffs: the payoff book; None: an empty one. The environment's label is "kuhn_poker".
        seed: of what the rule draws.
    """
    return KeepRequest(
        members=tuple(map(snapshot, steps)),
        keep=keep,
        payoffs=payoffs or Payoffs(),
        step=steps[-1],
        stream=Stream.from_seed(seed),
    )


def check_keeping(
    rule: Callable[..., Any] | Bound, *, requests: int = 200, seed: int = 0, **options: Any
) -> None:
    """Check a keeping rule on up to nine snapshots, with results of any kind.

    It keeps at least one, at most as many as may stay, and all of them where they may; it names
    snapshots that there are, each once; it answers the same when it is asked the same.

    Args:
        rule: the function, or the plug-in bound.
        requests: how many are tried.
        seed: of these, and of what the rule draws.
        options: of the function.

    Raises:
        AssertionError: it keeps none, lets one go without need, or answers otherwise when it is
            asked again.
        PluginError: it raised, or gave what a run refuses.
    """
    made = bound("league.keeping", rule, options)
    for number in range(requests):
        asked = _drawn(Stream.from_seed(seed).child("keeping").child(number), seed)
        kept = made(asked)
        said = f"of the snapshots of steps {asked.steps}, of which {asked.keep} may stay"
        assert kept, f"The {made} keeps none {said}."
        assert len(asked.members) > asked.keep or set(kept) == set(asked.members), (
            f"The {made} keeps {', '.join(map(str, kept))} {said}; all may stay."
        )
        same(kept, made(asked), f"The {made} must answer the same when it is asked the same")


def _drawn(stream: Stream, seed: int) -> KeepRequest:
    """Return a question that is drawn: snapshots, how many may stay, and results."""
    count = 1 + stream.integer(0, MOST)
    steps = [0] * count
    for place in range(count):
        steps[place] = (
            (steps[place - 1] if place else 0) + 1 + stream.child("gap").integer(place, 50)
        )
    rows = {}
    met = stream.child("met").integer(0, 5) > 0  # else the book is empty
    for place, step in enumerate(steps if met else ()):
        wins, losses = (stream.child(name).integer(place, 5) for name in ("wins", "losses"))
        if wins + losses:
            results = Results(
                games=wins + losses, wins=wins, losses=losses, returns=float(wins - losses)
            )
            rows[Row("kuhn_poker", 0, LEARNER, snapshot(step))] = results
    keep = 1 + stream.child("keep").integer(0, MOST)
    return keep_request(steps, keep, payoffs=Payoffs(rows), seed=seed)
