"""A recorded game played again: the states of its turns, and how its conversations have ended.

A conversation here is that of an agent instance: it begins where the environment gives a seat a
fresh one, whatever a context strategy lays out anew within it. Its end is not stored, so that
records of all versions have it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any, Literal, NamedTuple

from sparring.core.errors import GameError, RolloutError
from sparring.core.records import Episode, Turn
from sparring.core.rng import Stream
from sparring.environments.base import (
    ConversationEnd,
    Environment,
    HasConversationEnd,
    Play,
    temporary_play,
)
from sparring.environments.foreign import environment_call
from sparring.environments.situation import close_copies
from sparring.play.episode import sampled_tokens


def replay(game: Environment, episode: Episode) -> list[Any]:
    """Return the state before each turn of an episode, in order.

    Turns taken at once share one, and so do those after which the same seat tried again, and a
    memory with the turn after it. They are copies, which the caller closes (``close_copies``).

    Args:
        game: the rules and options that the episode was played by.
        episode: its deal is drawn again from its seed, and what was played is played again.

    Raises:
        RolloutError: the episode is not one of this game.
    """
    copies: list[Any] = []
    plays = replayed(game, episode)
    try:
        for play in islice(plays, len(episode.turns)):
            with environment_call(game):
                copies.append(play.clone())
    except BaseException:
        close_copies(copies)
        raise
    finally:
        plays.close()
    return copies


def replayed(game: Environment, episode: Episode) -> Generator[Any]:
    """Yield the one play of an episode that is played again: before each turn, and at its end.

    Look at it before the next one is asked for; plays need not be ``Cloneable``. The play is closed
    when the generator ends.

    Args:
        game: the rules and options that the episode was played by.
        episode: as for ``replay``.

    Raises:
        RolloutError: the episode is not one of this game.
    """
    plays = _moments(game, episode)
    try:
        while True:
            with environment_call(game):
                play = next(plays, None)
            if play is None:
                return
            yield play
    finally:
        plays.close()


@contextmanager
def ended(game: Environment, episode: Episode) -> Iterator[Any]:
    """Give the play of an episode that is played again, as it stands at its end, and close it.

    Raises:
        RolloutError: the episode is not one of this game.
    """
    plays = replayed(game, episode)
    try:
        yield next(islice(plays, len(episode.turns), None))
    finally:
        plays.close()


def figures_of(game: Environment, episode: Episode) -> Mapping[str, tuple[float, ...]] | None:
    """Return what an environment counts in a play, a number per seat by name.

    None where it counts nothing, and of plays that did not end by its rules. The play is played
    again, as records do not hold what was hidden.

    Raises:
        RolloutError: the episode is not one of this game.
    """
    if not game.figures or episode.forfeited_by is not None or episode.cut:
        return None
    with ended(game, episode) as end, environment_call(game):
        found: Mapping[str, tuple[float, ...]] = end.figures()
    return found


def _moments(game: Environment, episode: Episode) -> Generator[Any]:
    with temporary_play(game, Stream(episode.seed)) as play:
        yield from _stepped(game, episode, play)


def _stepped(game: Environment, episode: Episode, play: Play) -> Iterator[Any]:
    settled: dict[int, str] = {}  # what was played in this moment so far, by seat
    for number, turn in enumerate(episode.turns):
        due = play.due()
        if turn.seat not in due or (
            turn.is_decision and (play.legal(turn.seat) or ()) != turn.legal_actions
        ):
            raise _foreign(game, episode, number, "another decision is due there")
        yield play
        if turn.action is not None:
            settled[turn.seat] = turn.action
        if len(settled) == len(due):
            try:
                play.step(settled)
            except GameError as error:
                raise _foreign(game, episode, number, str(error)) from error
            settled = {}
    yield play


def _foreign(game: Environment, episode: Episode, number: int, why: str) -> RolloutError:
    return RolloutError(
        f"Episode {episode.episode_id} of {episode.game!r} is no game of these rules at "
        f"turn {number}: {why}; replay it with the game and options it was played with "
        f"(here: {game.name!r})."
    )


End = Literal[ConversationEnd, "context", "length", "cut", "over"]
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
    context or a reply's length was too short; then what else the environment
    says (``HasConversationEnd``).

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


def _closed(play: Play, seats: dict[int, list[int]]) -> Iterator[tuple[int, ConversationEnd]]:
    """Yield the seats whose conversations are over, as the environment knows it, and how."""
    if isinstance(play, HasConversationEnd):
        for seat in sorted(seats):
            how = play.closed(seat)
            if how is not None:
                yield seat, how


def _at_the_end(episode: Episode, seat: int) -> End:
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
