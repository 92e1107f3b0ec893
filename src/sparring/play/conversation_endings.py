"""How each conversation of a play has ended: found by playing its record again.

A conversation here is that of an agent instance: it begins where the environment gives a seat a
fresh one, whatever a context strategy lays out anew within it. Nothing of this is stored, so that
records of all versions have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from sparring.core.records import Episode, Turn
from sparring.environments.base import Closed, Closing, Environment, Play
from sparring.environments.foreign import environment_call
from sparring.play.replay import replayed
from sparring.play.turn_draft import sampled_tokens

End = Literal[Closed, "context", "length", "cut", "over"]
ENDS: dict[End, str] = {  # each in words
    "answered": "it had its say",
    "turns": "it ran out of turns",
    "malformed": "what it ended with could not be read",
    "limit": "the environment ended it at its work",
    "context": "it outgrew the model's context",
    "length": "its last reply was cut short, and held no action",
    "cut": "the play was truncated",
    "over": "the play was over",
}
FAILED = frozenset({"turns", "context", "length", "cut"})  # by limits: it has not had its say


class Conversation(NamedTuple):
    """A conversation of an agent instance.

    Args:
        seat: whose it is.
        turns: places of its turns in ``Episode.turns``, ascending.
        end: how it has ended.
    """

    seat: int
    turns: tuple[int, ...]
    end: End


def conversations(game: Environment, episode: Episode) -> list[Conversation]:
    """Return the conversations of a play, in the order in which they ended.

    What the environment says comes first where it could not read the end; then that the model's
    context or a reply's length was too short; then what else the environment says (``Closing``).

    Args:
        game: what the episode was played by.
        episode: of any run.

    Raises:
        RolloutError: the episode is not one of this game.
        PluginError: the environment's own code raised, or does not come back.
    """
    found: list[Conversation] = []
    open_: dict[int, list[int]] = {}
    for place, play in enumerate(replayed(game, episode)):
        with environment_call(game):
            closed = list(_closed(play, open_))
            over = place == len(episode.turns)
            seat = None if over else episode.turns[place].seat
            fresh = seat is not None and bool(play.observe(seat).fresh)
        for one, how in closed:
            found.append(_conversation(episode, one, open_.pop(one), how))
        if seat is None:
            break
        if fresh and seat in open_ and episode.turns[open_[seat][-1]].action is not None:
            found.append(_conversation(episode, seat, open_.pop(seat), "over"))
        open_.setdefault(seat, []).append(place)
    for one in sorted(open_):
        found.append(_conversation(episode, one, open_[one], _at_the_end(episode, one)))
    return found


def _closed(play: Play, seats: dict[int, list[int]]) -> Iterator[tuple[int, Closed]]:
    """Yield the seats whose conversations are over, as the environment knows it, and how."""
    if isinstance(play, Closing):
        for seat in sorted(seats):
            how = play.closed(seat)
            if how is not None:
                yield seat, how


def _at_the_end(episode: Episode, seat: int) -> End:
    """Return how a conversation has ended that went on up to the end of its play."""
    if episode.forfeited_by == seat:
        return "malformed"
    return "cut" if episode.cut else "over"


def _conversation(episode: Episode, seat: int, places: list[int], how: End) -> Conversation:
    last = episode.turns[places[-1]]
    if how != "malformed":
        how = "context" if unsent(last) else "length" if cut_short(last) else how
    return Conversation(seat, tuple(places), how)


def unsent(turn: Turn) -> bool:
    """Return whether a turn's conversation had outgrown the model, so that it was not asked."""
    if turn.event == "unsent":
        return True
    return turn.truncated and not turn.reply and not sampled_tokens(turn)  # in records of before


def cut_short(turn: Turn) -> bool:
    """Return whether a reply ran into the limit of its tokens and held no action."""
    return turn.truncated and turn.event in ("illegal", "unparsable") and not unsent(turn)
