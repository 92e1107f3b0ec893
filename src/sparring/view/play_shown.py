"""A person's play as its page shows it, as values of JSON.

Before the end they hold nothing but what the person's seat is told.
"""

from __future__ import annotations

from typing import Any

from sparring.api.human_play import InteractiveSession
from sparring.core.errors import SparringError
from sparring.core.records import Episode, Turn, Verdict
from sparring.environments.base import Drawable, is_searchable_play
from sparring.environments.drawing.canvas import THEMES
from sparring.environments.foreign import environment_call, no_rules
from sparring.environments.openspiel.people import rules_of
from sparring.methods.oracles.judge import regret
from sparring.report.episode_summary import drawn_line, ending, thoughts, verdict

Answer = dict[str, Any]


def position(sitting: InteractiveSession) -> Answer:
    """Return where a play stands, as the person's seat sees it.

    Args:
        sitting: that goes on, or is over.
    """
    first = sitting.past[0].told if sitting.past else sitting.told
    legal = sitting.legal
    return {
        "phase": _phase(sitting),
        "turn": sitting.turn,
        "told": sitting.told,
        "legal": None if legal is None else list(legal),
        "past": [one._asdict() for one in sitting.past],
        "rules": first if no_rules(sitting.game) else rules_of(sitting.people),
        "picture": picture(sitting, None if sitting.episode is not None else sitting.seat),
    }


def _phase(sitting: InteractiveSession) -> str:
    """Return how a play stands: it waits for the person, is over, or cannot go on."""
    if sitting.asked is not None:
        return "yours"
    return "failed" if sitting.episode is None else "over"


def picture(sitting: InteractiveSession, seat: int | None) -> Answer | None:
    """Return the position drawn in both themes and in words; None where nothing draws it.

    Args:
        sitting: that goes on, or is over.
        seat: whose view it is; None hides nothing.
    """
    play = sitting.play
    if is_searchable_play(play) and sitting.people is not sitting.game:
        play = sitting.people.state_of(play.node)  # in sentences
    if not isinstance(play, Drawable):
        return None
    try:
        with environment_call(sitting.game):
            found: Answer = {theme: play.draw(seat, theme) for theme in THEMES}
            return {**found, "said": play.described(seat)}
    except SparringError:
        return None  # the told text is shown in its place


def opinion(found: Verdict | None) -> Answer | None:
    """Return what an oracle said of a decision."""
    if found is None:
        return None
    return {
        "actions": list(found.actions),
        "values": list(found.values),
        "best": [action for action in found.actions if action in found.best],
        "certainty": found.certainty,
        "bound": found.bound,
    }


def show_down(sitting: InteractiveSession, episode: Episode) -> Answer:
    """Return a finished play with everything that was hidden.

    Args:
        sitting: that is over.
        episode: its record, judged or not.
    """
    game, opposite = sitting.game, sitting.opposite
    known = {}
    if opposite is not None and not no_rules(game):
        known = thoughts(game, episode, opposite.agent, opposite.name)
    turns = [
        {**_turn(sitting, turn), "index": number, "thought": known.get(number, "")}
        for number, turn in enumerate(episode.turns)
    ]
    return {
        "verdict": verdict(game, episode.returns, sitting.seat),
        "returns": list(episode.returns),
        "ending": "" if no_rules(game) else ending(game, episode, sitting.seat),
        "turns": turns,
        "cut": episode.cut,
        "drawn": drawn_line(sitting.drawn) if sitting.drawn else "",
        "seed": sitting.seed,
    }


def _turn(sitting: InteractiveSession, turn: Turn) -> Answer:
    """Return one turn of a finished play."""
    return {
        "seat": turn.seat,
        "yours": turn.seat == sitting.seat,
        "moment": turn.moment,
        "told": turn.told,
        "reply": turn.reply,
        "action": turn.action,
        "event": turn.event,
        "oracle": opinion(turn.verdict),
        "regret": regret(turn),
    }


def judgement(episode: Episode, seat: int) -> Answer:
    """Return how good a seat's moves were, as the oracle says.

    Args:
        episode: judged.
        seat: the person's.
    """
    own = [turn for turn in episode.decisions if turn.seat == seat]
    found = [value for turn in own if (value := regret(turn)) is not None]
    best = sum(
        turn.verdict is not None and turn.event == "ok" and turn.action in turn.verdict.best
        for turn in own
    )
    return {"moves": len(own), "judged": len(found), "best": best, "regret": sum(found)}
