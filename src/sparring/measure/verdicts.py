"""What a policy reached, beside uniform play and best play: numbers and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparring import registry
from sparring.config import EnvironmentConfig
from sparring.environments.catalogue import configured_game
from sparring.environments.openspiel.base import Game
from sparring.measure.matches import MatchReport, play_matches
from sparring.measure.references import References, beside, references_of, sentence
from sparring.measure.starts import Starts
from sparring.players.random import random
from sparring.rng import Stream

UNIFORM_GAMES = 200  # per seat, of the random agent that is set beside the policy
MANY_ILLEGAL = (
    0.05  # share of replies that are no legal action, from which NashConv alone would mislead
)


def told(
    games: Sequence[Game],
    figures: Mapping[str, float],
    known: Mapping[str, References],
    verdicts: Sequence[str],
) -> dict[str, Any]:
    """Return what uniform play and best play have beside each figure, and sentences.

    Args:
        games: those measured.
        figures: exact ones of the policy, by name.
        known: by the game's name, where it could be enumerated.
        verdicts: sentences on matches, which come last.
    """
    found: dict[str, tuple[float, float | None]] = {}
    sentences = []
    for game in games:
        if game.name in known:
            found.update(beside(game, known[game.name]))
            if f"nash_conv/{game.name}" not in figures:
                continue  # a mixture that teams of several seats draw from has none
            said = sentence("NashConv", figures[f"nash_conv/{game.name}"], known[game.name])
            said += about_illegal(figures[f"illegal_mass_reached/{game.name}"])
            sentences.append(f"{game.name}: {said}")
    both = {
        name: dict(zip(("uniform", "best"), found[name], strict=True))
        for name in figures
        if name in found
    }
    return {"references": both, "verdicts": [*sentences, *verdicts]}


def run_verdicts(config: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence per game of a run on its last NashConv, where references are quickly known.

    Args:
        config: of the run, from its folder; games that cannot be made are passed over.
        lines: of metrics.jsonl.
    """
    sections, found = config.get("environments", config.get("games")), []
    for section in sections if isinstance(sections, list) else ():
        try:  # the folder may be of another version, or a stranger's
            entry = EnvironmentConfig.model_validate(section)
            name = f"nash_conv/{entry.known_as}"
            last = next((line for line in reversed(lines) if line.get(name) is not None), None)
            if last is None or entry.name not in registry.built_in("environments"):
                continue
            known = references_of(configured_game(entry))
        except ValueError:
            continue
        if known is not None:
            said = sentence(f"NashConv at step {last['step']}", last[name], known)
            said += about_illegal(last.get(f"illegal_mass_reached/{entry.known_as}") or 0.0)
            found.append(f"{entry.known_as}: {said}")
    return found


def about_illegal(mass: float) -> str:
    """Return a sentence on replies that NashConv leaves out, where they are many; else ""."""
    if mass < MANY_ILLEGAL:
        return ""
    return (
        f" It leaves out replies that are no legal action, {mass:.0%} of those in play, "
        "and so is no measure of skill yet."
    )


def beside_uniform(
    game: Game,
    report: MatchReport,
    stream: Stream,
    starts: Starts,
    in_flight: int | None = None,
) -> str:
    """Return how often the agent won or drew, or succeeded, beside uniform play."""
    games = max(min(report.overall.games // game.num_seats, UNIFORM_GAMES), 2)
    uniform = play_matches(
        game,
        random(),
        random(),
        games_per_seat=games,
        stream=stream,
        starts=starts,
        in_flight=in_flight,
    )
    one, two = (_share(result, game.num_seats) for result in (report, uniform))
    against = "" if game.num_seats == 1 else f" against {report.opponent}"
    what = "success" if game.num_seats == 1 else "win or draw"
    mine, other = (result.overall.mean_return.mean for result in (report, uniform))
    payoffs = f"mean return {mine:.3f}, uniform play {other:.3f}"
    against += "" if starts.label == "all" else f" on {starts.label} starts"
    return f"{game.name}{against}: {what} {one:.3f}, uniform play {two:.3f}; {payoffs}."


def _share(report: MatchReport, seats: int) -> float:
    """Return the share of games won or drawn; of successes where one plays alone."""
    alone = report.seats[0].success
    return alone.mean if seats == 1 and alone is not None else report.overall.win_or_draw.mean
