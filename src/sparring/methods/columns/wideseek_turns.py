"""Column: which turns the release of WideSeek-R1 trains."""

from __future__ import annotations

from sparring.core.errors import CreditError
from sparring.core.records import BoolArray, Episode
from sparring.environments.base import Environment, HasLeads
from sparring.methods.columns.base import ColumnSource
from sparring.methods.columns.failed import turns_in
from sparring.play.episode import sampled_tokens
from sparring.play.replay import FAILED, Conversation, conversations

REPEATED = 8000  # tokens from which a truncated reply is taken to repeat itself


def wideseek_turns(source: ColumnSource) -> BoolArray:
    """Flag the turns that WideSeek-R1, as released, trains.

    What: true or false per row, [N], by the ends of the episode's conversations. A conversation
    failed if a limit ended it (column ``failed``); the lead is the leading seat, or the only one.
        - Well-formed answer, lead not failed: all turns except those of failed workers.
        - Well-formed answer, lead failed: only the turns of the lead.
        - Malformed answer: the lead's last turn, unless its reply was truncated; also the last
          turn of each conversation whose reply was truncated at 8,000 tokens or more, and without
          such a conversation all turns of failed conversations.
    A table made of the workers' notes is always well-formed. After a forfeit there is no answer,
    and the forfeiting turn replaces the lead's last one. The release pays 0 in the last two cases;
    here the environment's reward counts, which is 0 for a malformed answer.
    """
    return turns_in(source, released)


def released(game: Environment, episode: Episode) -> set[int]:
    """Return the indices of the trained turns in ``Episode.turns``.

    Raises:
        CreditError: several seats, none of which leads.
    """
    talks = conversations(game, episode)
    failed = _places([talk for talk in talks if talk.end in FAILED])
    leads = _leads(game)
    of_lead = [talk for talk in talks if talk.seat in leads]
    answer = next(
        (talk for talk in talks if talk.seat == episode.forfeited_by and talk.end == "malformed"),
        of_lead[-1],
    )
    if answer.end != "malformed":
        failures = _places([talk for talk in of_lead if talk.end in FAILED])
        return failures or {*range(len(episode.turns))} - failed
    last = answer.turns[-1]
    trained = set[int]()
    if episode.turns[last].truncated:
        failed |= {*answer.turns}
    else:
        trained = {last}
    ends = (talk.turns[-1] for talk in talks)
    repeat = {place for place in ends if _repeats(episode, place)}
    return trained | (repeat or failed)


def _places(talks: list[Conversation]) -> set[int]:
    return {place for talk in talks for place in talk.turns}


def _repeats(episode: Episode, place: int) -> bool:
    turn = episode.turns[place]
    return turn.truncated and sampled_tokens(turn) >= REPEATED


def _leads(game: Environment) -> set[int]:
    seats = range(game.num_seats)
    leads = {seat for seat in seats if game.leads(seat)} if isinstance(game, HasLeads) else set()
    if not leads and game.num_seats > 1:
        raise CreditError(
            f"{game.name}: none of its {game.num_seats} seats leads, and WideSeek-R1 trains an "
            "episode by the end of its lead; play wide_search or dag_search, or write trains: "
            "unfailed."
        )
    return leads or {0}
