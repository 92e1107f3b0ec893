"""Column: which turns the release of WideSeek-R1 trains."""

from __future__ import annotations

from sparring.core.errors import CreditError
from sparring.core.records import BoolArray, Episode
from sparring.environments.base import Environment, HasLeads
from sparring.methods.columns.base import Source
from sparring.methods.columns.failed import turns_in
from sparring.play.episode import sampled_tokens
from sparring.play.replay import FAILED, Conversation, conversations

REPEATED = 8000  # tokens of a reply that was cut short, from which on it is taken to repeat itself


def wideseek_turns(source: Source) -> BoolArray:
    """Say of every turn whether WideSeek-R1, as released, trains it.

    What: true or false per row, [N], by how the conversations of the play have ended; failed is one
    that a limit ended (column ``failed``), and the lead is who leads, or the one seat.
        The answer can be read, and the lead has not failed: all turns but those of failed workers.
        It can be read, and the lead has failed: the turns of the lead alone.
        It is malformed: the lead's last turn, where its reply was not cut short; besides, the last
            turn of each conversation whose reply was cut short at 8,000 tokens or more, and
            without one all turns of conversations that have failed.
    A table that the workers' notes make can always be read. Where somebody has forfeited there is
    no answer, and his turn takes the place of the lead's last one. The release pays 0 in the last
    two cases; here the environment pays what it pays, which is 0 for what is malformed.
    """
    return turns_in(source, released)


def released(game: Environment, episode: Episode) -> set[int]:
    """Return the places of the turns that are trained, in ``Episode.turns``.

    Raises:
        CreditError: nobody leads, and there are several seats.
    """
    found = conversations(game, episode)
    failed = _places([one for one in found if one.end in FAILED])
    leads = _leads(game)
    of_lead = [one for one in found if one.seat in leads]
    answer = next(
        (one for one in found if one.seat == episode.forfeited_by and one.end == "malformed"),
        of_lead[-1],
    )
    if answer.end != "malformed":
        lost = _places([one for one in of_lead if one.end in FAILED])
        return lost or {*range(len(episode.turns))} - failed
    last = answer.turns[-1]
    trained = set[int]()
    if episode.turns[last].truncated:
        failed |= {*answer.turns}
    else:
        trained = {last}
    ends = (one.turns[-1] for one in found)
    repeat = {place for place in ends if _repeats(episode, place)}
    return trained | (repeat or failed)


def _places(found: list[Conversation]) -> set[int]:
    return {place for one in found for place in one.turns}


def _repeats(episode: Episode, place: int) -> bool:
    """Return whether a reply was cut short, and is so long that it is taken to repeat itself."""
    turn = episode.turns[place]
    return turn.truncated and sampled_tokens(turn) >= REPEATED


def _leads(game: Environment) -> set[int]:
    seats = range(game.num_seats)
    found = {seat for seat in seats if game.leads(seat)} if isinstance(game, HasLeads) else set()
    if not found and game.num_seats > 1:
        raise CreditError(
            f"{game.name}: nobody leads its {game.num_seats} seats, and WideSeek-R1 trains a play "
            "by how its lead has ended; play wide_search or dag_search, or write trains: unfailed."
        )
    return found or {0}
