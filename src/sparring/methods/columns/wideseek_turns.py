"""Column: which turns the authors' code of WideSeek-R1 trains."""

from __future__ import annotations

from sparring.core.errors import CreditError
from sparring.core.records import BoolArray, Episode
from sparring.environments.base import Environment, HasLeads
from sparring.methods.columns.base import ColumnSource
from sparring.methods.columns.failed import flag_turns
from sparring.play.episode import num_sampled_tokens
from sparring.play.replay import FAILED, Conversation, conversations

REPETITION_TOKENS = 8000  # a truncated reply with at least this many tokens counts as repetitive


def wideseek_turns(source: ColumnSource) -> BoolArray:
    """Flag the turns that the authors' code of WideSeek-R1 trains.

    What: true or false per row, [N], by the ends of the episode's conversations. A conversation
    failed if a limit ended it (column ``failed``). The lead is the leading seat, or the only seat.
        - Well-formed answer, lead not failed: all turns except those of failed workers.
        - Well-formed answer, lead failed: only the turns of the lead.
        - Malformed answer: the lead's last turn, unless its reply was truncated. Also the last turn
          of each conversation whose reply was truncated at 8,000 tokens or more. If there is no
          such conversation, all turns of failed conversations.
    A table made of the workers' notes is always well-formed. After a forfeit there is no answer,
    and the forfeiting turn replaces the lead's last turn. The authors' code pays 0 if the answer
    is malformed or the lead failed. Here the environment's reward counts, which is 0 for a
    malformed answer.
    """
    return flag_turns(source, find_trained_turns)


def find_trained_turns(game: Environment, episode: Episode) -> set[int]:
    """Return the indices in ``Episode.turns`` of the turns that the authors' code trains.

    Raises:
        CreditError: the environment has several seats and no leading seat.
    """
    all_conversations = conversations(game, episode)
    failed_turns = _failed_turns(all_conversations)
    leading_seats = _leading_seats(game)
    lead_conversations = [
        conversation for conversation in all_conversations if conversation.seat in leading_seats
    ]
    lost_conversations = [
        conversation
        for conversation in all_conversations
        if conversation.end == "malformed" and conversation.seat == episode.forfeited_by
    ]
    answer_conversation = lost_conversations[0] if lost_conversations else lead_conversations[-1]
    if answer_conversation.end != "malformed":
        return _failed_turns(lead_conversations) or {*range(len(episode.turns))} - failed_turns
    last_turn = answer_conversation.turns[-1]
    trained_turns = set[int]()
    if episode.turns[last_turn].truncated:
        failed_turns |= {*answer_conversation.turns}
    else:
        trained_turns = {last_turn}
    last_turns = (conversation.turns[-1] for conversation in all_conversations)
    repeating_turns = {index for index in last_turns if _is_repetition(episode, index)}
    return trained_turns | (repeating_turns or failed_turns)


def _failed_turns(conversations: list[Conversation]) -> set[int]:
    turns = (conversation.turns for conversation in conversations if conversation.end in FAILED)
    return {index for indices in turns for index in indices}


def _is_repetition(episode: Episode, index: int) -> bool:
    turn = episode.turns[index]
    return turn.truncated and num_sampled_tokens(turn) >= REPETITION_TOKENS


def _leading_seats(game: Environment) -> set[int]:
    seats = range(game.num_seats)
    leads = {seat for seat in seats if game.leads(seat)} if isinstance(game, HasLeads) else set()
    if not leads and game.num_seats > 1:
        raise CreditError(
            f"{game.name}: none of its {game.num_seats} seats leads, but WideSeek-R1 selects "
            "turns by the end of the lead's conversation; play wide_search or dag_search, or "
            "write trains: unfailed."
        )
    return leads or {0}
