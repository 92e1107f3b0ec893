"""Replay of recorded episodes: the states of their turns, and how conversations ended.

A conversation here belongs to an agent instance: it begins where the environment gives a seat a
fresh one, and may have several conversations of a context strategy. Replay finds its end for
records of all versions, as the end is not stored.
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

    Simultaneous turns share one state, and so do second tries of a seat, and a memory and the turn
    after it. The states are copies, which the caller closes (``close_copies``).

    Args:
        game: the environment, with the options of the episode.
        episode: replayed from its seed and actions.

    Raises:
        RolloutError: the episode is not of this game.
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
    """Yield the play of a replayed episode before each turn, and at its end.

    All yielded objects are one play, which changes at the next step and is closed in the end.

    Args:
        game: the environment, with the options of the episode.
        episode: as for ``replay``.

    Raises:
        RolloutError: the episode is not of this game.
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
def final_play(game: Environment, episode: Episode) -> Iterator[Any]:
    """Yield the play of a replayed episode at its end, and close it.

    Raises:
        RolloutError: the episode is not of this game.
    """
    plays = replayed(game, episode)
    try:
        yield next(islice(plays, len(episode.turns), None))
    finally:
        plays.close()


def figures_of(game: Environment, episode: Episode) -> Mapping[str, tuple[float, ...]] | None:
    """Return the figures that an environment counts in an episode, by name, each [num_seats].

    The result is None where the environment counts nothing, or the episode did not end by its
    rules. The episode is replayed, as records lack hidden information.

    Raises:
        RolloutError: the episode is not of this game.
    """
    if not game.figures or episode.forfeited_by is not None or episode.cut:
        return None
    with final_play(game, episode) as end, environment_call(game):
        figures: Mapping[str, tuple[float, ...]] = end.figures()
    return figures


def _moments(game: Environment, episode: Episode) -> Generator[Any]:
    with temporary_play(game, Stream(episode.seed)) as play:
        yield from _stepped(game, episode, play)


def _stepped(game: Environment, episode: Episode, play: Play) -> Iterator[Any]:
    settled: dict[int, str] = {}  # actions of this moment, by seat
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


def _foreign(game: Environment, episode: Episode, number: int, reason: str) -> RolloutError:
    return RolloutError(
        f"Episode {episode.episode_id} of {episode.game!r} does not fit these rules at turn "
        f"{number}: {reason}; replay it with the game and options it was played with "
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
FAILED = frozenset({"turns", "context", "length", "cut"})  # ended by a limit


class Conversation(NamedTuple):
    """A conversation of an agent instance.

    Args:
        seat: of the agent instance.
        turns: places of its turns in ``Episode.turns``, ascending.
        end: how it ended.
    """

    seat: int
    turns: tuple[int, ...]
    end: End


def conversations(game: Environment, episode: Episode) -> list[Conversation]:
    """Return the conversations of an episode, in the order of their ends.

    If several ends apply, the first of these holds: "malformed" by the environment
    (``HasConversationEnd``), "context" or "length", any other end of the environment.

    Args:
        game: the environment of the episode.
        episode: of any run.

    Raises:
        RolloutError: the episode is not of this game.
        PluginError: the environment's code raised, or hung.
    """
    finished: list[Conversation] = []
    open_: dict[int, list[int]] = {}
    for place, play in enumerate(replayed(game, episode)):
        with environment_call(game):
            endings = list(_endings(play, open_))
            is_over = place == len(episode.turns)
            seat = None if is_over else episode.turns[place].seat
            fresh = seat is not None and bool(play.observe(seat).fresh)
        for other, ending in endings:
            finished.append(_conversation(episode, other, open_.pop(other), ending))
        if seat is None:
            break
        if fresh and seat in open_ and episode.turns[open_[seat][-1]].action is not None:
            finished.append(_conversation(episode, seat, open_.pop(seat), "over"))
        open_.setdefault(seat, []).append(place)
    for other in sorted(open_):
        finished.append(_conversation(episode, other, open_[other], _at_the_end(episode, other)))
    return finished


def _endings(play: Play, seats: dict[int, list[int]]) -> Iterator[tuple[int, ConversationEnd]]:
    if isinstance(play, HasConversationEnd):
        for seat in sorted(seats):
            ending = play.closed(seat)
            if ending is not None:
                yield seat, ending


def _at_the_end(episode: Episode, seat: int) -> End:
    if episode.forfeited_by == seat:
        return "malformed"
    return "cut" if episode.cut else "over"


def _conversation(episode: Episode, seat: int, places: list[int], ending: End) -> Conversation:
    last = episode.turns[places[-1]]
    if ending != "malformed":
        ending = "context" if unsent(last) else "length" if cut_short(last) else ending
    return Conversation(seat, tuple(places), ending)


def unsent(turn: Turn) -> bool:
    """Return whether a turn's conversation was too long to be sent to the model."""
    if turn.event == "unsent":
        return True
    return turn.truncated and not turn.reply and not sampled_tokens(turn)  # in old records


def cut_short(turn: Turn) -> bool:
    """Return whether a reply was truncated at its token limit and has no legal action."""
    return turn.truncated and turn.event in ("illegal", "unparsable") and not unsent(turn)
