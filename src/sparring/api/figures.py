"""The public function that measures a run or a bot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparring.api.measurement import measure
from sparring.api.runs import Run, check_integer, check_texts, folder_of
from sparring.config.plugins import registry
from sparring.config.plugins.guard import with_watch
from sparring.core.errors import ConfigError
from sparring.measure.agent_spec import parse_agent


@with_watch
def evaluate(
    what: Run | str | Path,
    environments: Sequence[str] = (),
    *,
    opponents: Sequence[str] = ("random",),
    games_per_seat: int = 100,
    exact: bool = True,
    seed: int = 0,
    answer: str | None = None,
    self_plays: int = 0,
    adaptation: bool = False,
    best_of: int = 1,
    in_flight: int | None = None,
) -> dict[str, Any]:
    """Measure a run or a bot as `sparring evaluate` does; return figures, matches and notes.

    Args:
        what: a run or its folder, or a bot as on the command line, e.g. "mcts simulations=100".
        environments: names, with options as on the command line, e.g. "sudoku blanks=6"; empty:
            the environments of the run.
        opponents: bots as on the command line.
        games_per_seat: episodes against each opponent from each seat.
        exact: whether to compute exact figures where the environment is small enough.
        seed: seed of the episodes.
        answer: the policy of a run that is measured, e.g. "nash", its mixture of league members;
            None: the answer that the configuration names.
        self_plays: number of episodes with the measured player in all seats, 0 or at least 2. The
            key "self_plays" then holds the number of different episodes, the mean return of each
            role and the environment's figures.
        adaptation: whether to measure each attempt of trials by opponent, in the key "adaptation".
        best_of: candidates per turn, 1 to 1024; the candidate that the oracle ranks best is played.
        in_flight: number of episodes at once, e.g. the sessions that an environment server allows;
            None: the player's limit (a run's ``rollout.in_flight``), else 64.

    Raises:
        ConfigError: a name or option is wrong, or a bot is to be measured without environments.
    """
    names = check_texts(environments, "environments", "['kuhn_poker']")
    bots = check_texts(opponents, "opponents", "['random']")
    check_integer(games_per_seat, "games_per_seat", 1)
    check_integer(seed, "seed", 0)
    check_integer(best_of, "best_of", 1)
    if in_flight is not None:
        check_integer(in_flight, "in_flight", 1)
    if self_plays != 0:
        check_integer(self_plays, "self_plays", 2)
    run = what if isinstance(what, Run) else _find_run(what)
    if run is None and not environments:
        example = "sparring.evaluate('random', ['kuhn_poker'])"
        raise ConfigError(
            f"{what!r} is not a run folder; to measure a bot, name environments, e.g. {example}."
        )
    if run is None and answer is not None:
        raise ConfigError(f"answer={answer!r} is for runs only; leave it out for a bot.")
    return measure(
        run.path if run else None,
        None if run else str(what),
        checkpoint=run.chosen_step if run else None,
        names=names,
        bots=[parse_agent(text) for text in bots],
        games_per_seat=games_per_seat,
        exact=exact,
        seed=seed,
        answer=answer,
        self_plays=self_plays,
        adaptation=adaptation,
        best_of=best_of,
        in_flight=in_flight,
    )


def _find_run(what: Any) -> Run | None:
    if isinstance(what, str):
        name = what.split(" ")[0]
        if registry.is_known("players", name) or not (Path(what).is_dir() or "/" in name):
            return None
    return Run(folder_of(what))
