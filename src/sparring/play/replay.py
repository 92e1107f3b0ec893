"""Replay of recorded episodes: the states of their turns, and how conversations ended.

A conversation here is the conversation of one agent instance, such as one call of a worker,
and begins where the environment gives a seat a fresh conversation. A context strategy may divide
it further. Records do not contain the end of a conversation, so it is found by replay.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
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
from sparring.play.episode import num_sampled_tokens


def replay(game: Environment, episode: Episode) -> list[Any]:
    """Return the state before each turn of an episode, in order.

    Turns share one state if they are simultaneous, if a seat tries again, or if the first turn is a
    memory. The states are copies, which the caller closes (``close_copies``).

    Args:
        game: the environment, with the options of the episode.
        episode: the record, which is replayed from its seed and actions.

    Raises:
        RolloutError: the episode is not of this game.
    """
    copies: list[Any] = []
    plays = replay_states(game, episode)
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


def replay_states(game: Environment, episode: Episode) -> Generator[Any]:
    """Yield the play of a replayed episode before each turn, and at its end.

    Every yielded object is one and the same play, which changes at the next step and is closed at
    the end.

    Args:
        game: the environment, with the options of the episode.
        episode: the record of an episode.

    Raises:
        RolloutError: the episode is not of this game.
    """
    plays = _play_moments(game, episode)
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
    plays = replay_states(game, episode)
    try:
        yield next(islice(plays, len(episode.turns), None))
    finally:
        plays.close()


def figures_of(game: Environment, episode: Episode) -> Mapping[str, tuple[float, ...]] | None:
    """Return the figures that an environment counts in an episode, by name, each [num_seats].

    None: the environment counts nothing, or the episode did not end by its rules. The episode is
    replayed, as records lack hidden information.

    Raises:
        RolloutError: the episode is not of this game.
    """
    if not game.figures or episode.forfeited_by is not None or episode.cut:
        return None
    with final_play(game, episode) as play, environment_call(game):
        figures: Mapping[str, tuple[float, ...]] = play.figures()
    return figures


def _play_moments(game: Environment, episode: Episode) -> Generator[Any]:
    with temporary_play(game, Stream(episode.seed)) as play:
        yield from _step_through(game, episode, play)


def _step_through(game: Environment, episode: Episode, play: Play) -> Iterator[Any]:
    actions: dict[int, str] = {}  # actions of this moment, by seat
    for index, turn in enumerate(episode.turns):
        due = play.due()
        if turn.seat not in due or (
            turn.is_decision and (play.legal(turn.seat) or ()) != turn.legal_actions
        ):
            raise _mismatch_error(game, episode, index, "another decision is due at this turn")
        yield play
        if turn.action is not None:
            actions[turn.seat] = turn.action
        if len(actions) == len(due):
            try:
                play.step(actions)
            except GameError as error:
                raise _mismatch_error(game, episode, index, str(error)) from error
            actions = {}
    yield play


def _mismatch_error(game: Environment, episode: Episode, turn: int, reason: str) -> RolloutError:
    return RolloutError(
        f"Episode {episode.episode_id} of {episode.game!r} does not fit these rules at turn "
        f"{turn}: {reason}; replay it with the environment and options of its run "
        f"(here: {game.name!r})."
    )


End = Literal[ConversationEnd, "context", "length", "cut", "over"]
ENDS: dict[End, str] = {  # explanations for people
    "answered": "it gave its answer",
    "turns": "it ran out of turns",
    "malformed": "its last reply could not be read",
    "limit": "the environment ended it before it was done",
    "context": "it outgrew the model's context",
    "length": "its last reply was truncated and had no action",
    "cut": "the episode was truncated",
    "over": "the episode was over",
}
FAILED = frozenset({"turns", "context", "length", "cut"})  # a limit ended the conversation


class Conversation(NamedTuple):
    """A conversation of an agent instance.

    Args:
        seat: the seat of the agent instance.
        turns: indices of its turns in ``Episode.turns``, ascending.
        end: how the conversation ended; see ``ENDS``.
    """

    seat: int
    turns: tuple[int, ...]
    end: End


def conversations(game: Environment, episode: Episode) -> list[Conversation]:
    """Return the conversations of an episode, in the order of their ends.

    If several ends apply, the first of these holds: "malformed" by the environment
    (``HasConversationEnd``), then "context" or "length", then any other end by the environment.

    Args:
        game: the environment of the episode.
        episode: an episode of any run.

    Raises:
        RolloutError: the episode is not of this game.
        PluginError: the environment's code raised an error, or hung.
    """
    result: list[Conversation] = []
    open_turns: dict[int, list[int]] = {}  # indices of turns, by seat
    for index, play in enumerate(replay_states(game, episode)):
        with environment_call(game):
            environment_ends = list(_ends_by_environment(play, open_turns))
            is_over = index == len(episode.turns)
            seat = None if is_over else episode.turns[index].seat
            is_fresh = seat is not None and bool(play.observe(seat).fresh)
        for ended_seat, end in environment_ends:
            indices = open_turns.pop(ended_seat)
            result.append(_conversation(episode, ended_seat, indices, end))
        if seat is None:
            break
        indices = open_turns.get(seat, []) if is_fresh else []
        if indices and episode.turns[indices[-1]].action is not None:
            result.append(_conversation(episode, seat, open_turns.pop(seat), "over"))
        open_turns.setdefault(seat, []).append(index)
    for seat, indices in sorted(open_turns.items()):
        result.append(_conversation(episode, seat, indices, _end_with_episode(episode, seat)))
    return result


def _ends_by_environment(play: Play, seats: Iterable[int]) -> Iterator[tuple[int, ConversationEnd]]:
    if isinstance(play, HasConversationEnd):
        for seat in sorted(seats):
            end = play.conversation_end(seat)
            if end is not None:
                yield seat, end


def _end_with_episode(episode: Episode, seat: int) -> End:
    if episode.forfeited_by == seat:
        return "malformed"
    return "cut" if episode.cut else "over"


def _conversation(episode: Episode, seat: int, indices: list[int], end: End) -> Conversation:
    last_turn = episode.turns[indices[-1]]
    if end != "malformed":
        is_too_long = is_unsent_turn(last_turn)
        end = "context" if is_too_long else "length" if is_cut_short(last_turn) else end
    return Conversation(seat, tuple(indices), end)


def is_unsent_turn(turn: Turn) -> bool:
    """Return whether a turn's conversation was too long to be sent to the model."""
    if turn.event == "unsent":
        return True
    return turn.truncated and not turn.reply and not num_sampled_tokens(turn)  # an old record


def is_cut_short(turn: Turn) -> bool:
    """Return whether a reply was truncated at its token limit and has no legal action."""
    return turn.truncated and turn.event in ("illegal", "unparsable") and not is_unsent_turn(turn)
