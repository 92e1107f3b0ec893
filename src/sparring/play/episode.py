"""An episode that is being played: its prompts, the replies, and the record.

The seats that must act now are *due*. With candidates, the policy gives K replies to every prompt
of a trained seat. Each reply is judged, one is *committed*, which means played, and all K are
recorded as one state group. Reply 0 has the same stream as in a run without candidates, so a run
that always commits reply 0 equals a run without candidates.

The values that a user-defined environment returns are checked. A wrong value raises a
``GameError``: the group is dropped and counted, and the log says what to correct.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from sparring.core.errors import GameError, quoted
from sparring.core.records import (
    ChatMessage,
    Episode,
    Observation,
    SampledSpan,
    Segment,
    Turn,
    TurnEvent,
    Verdict,
    can_precede_user,
)
from sparring.core.rng import Stream
from sparring.environments.base import (
    Environment,
    HasCorrection,
    Play,
    Redealable,
    close_play,
    is_searchable,
    random_reply,
    read_reply,
    spec_of,
)
from sparring.environments.situation import copy_play, decision_of
from sparring.play.context.base import Ledger, is_unsent, sampled_segments
from sparring.play.players.base import Agent, HasContext, PendingTurn, Reply

if TYPE_CHECKING:
    from sparring.play.spec import EpisodeSpec


class Draft:
    """A turn under construction: the due decision, then its reply and the action played.

    Attributes:
        number: number of the decision, from 1; simultaneous ones are in the order of their seats.
        seat: the seat that decides.
        turn_index: index of the turn among the turns of the seat, from 0.
        observation: the seat's observation.
        returns: payoffs so far, [num_seats].
        prompt: the observation's text, preceded by a notice if the last reply was illegal.
        legal: the legal actions; None: any text.
        moment: number of the moment in the play; equal for simultaneous decisions.
        is_memory: whether the reply is a memory, which takes no action.
        read_action: the action in the reply, legal or not.
        action: the action that is played.
        candidate: number of the reply among those to one prompt.
        num_replies: number of replies to the prompt.
        unplayed: the replies to the same prompt that are not played.
        score: the reply's score among the candidates.
    """

    __slots__ = (
        *("action", "candidate", "conversation", "event", "is_memory", "legal", "moment", "number"),
        *("num_replies", "observation", "penalty", "prompt", "read_action", "reply"),
        *("returns", "score", "seat", "segments", "turn_index", "unplayed", "verdict"),
    )

    reply: Reply
    event: TurnEvent
    read_action: str | None

    def __init__(
        self,
        number: int,
        seat: int,
        turn_index: int,
        observation: Observation,
        returns: tuple[float, ...],
        prompt: str,
        legal: tuple[str, ...] | None,
        moment: int,
        is_memory: bool = False,
    ) -> None:
        self.number, self.seat, self.turn_index = number, seat, turn_index
        self.observation = observation
        self.returns, self.prompt, self.legal, self.moment = returns, prompt, legal, moment
        self.is_memory = is_memory
        self.action: str | None = None
        self.penalty = 0.0
        self.conversation = 0
        self.segments: tuple[Segment, ...] = ()
        self.verdict: Verdict | None = None
        self.candidate, self.num_replies = 0, 1
        self.unplayed: list[Draft] = []
        self.score: float | None = None

    def draft_of_candidate(self, candidate: int) -> Draft:
        """Return a draft of the same decision for another candidate."""
        candidate_draft = Draft(
            self.number,
            self.seat,
            self.turn_index,
            self.observation,
            self.returns,
            self.prompt,
            self.legal,
            self.moment,
        )
        candidate_draft.verdict, candidate_draft.candidate = self.verdict, candidate
        return candidate_draft

    def to_turn(self, agent: str, rewards: dict[str, float]) -> Turn:
        """Return the record of this turn."""
        reply, observation = self.reply, self.observation
        return Turn(  # positional arguments are faster
            self.seat,
            self.turn_index,
            agent,
            observation.key,
            self.legal or (),
            reply.text,
            self.action,
            self.event,
            rewards,
            self.segments,
            self.conversation,
            reply.truncated,
            reply.weights_version,
            observation.view,
            self.prompt,
            self.moment,
            self.verdict,
            None,
            observation.attempt,
            self.candidate,
            self.score,
            (),
            None,
            observation.note,
        )

    @property
    def penalty_rewards(self) -> dict[str, float]:
        """The reward of this reply if it is illegal."""
        return {"illegal": -self.penalty} if self.penalty else {}


def past_exchanges(drafts: Sequence[Draft], draft: Draft) -> tuple[tuple[str, str], ...]:
    """Return the earlier prompts and replies of a decision's seat in its conversation."""
    exchanges: list[tuple[str, str]] = []
    for earlier_draft in drafts:
        if earlier_draft.seat == draft.seat and earlier_draft.observation.fresh:
            exchanges = []
        if earlier_draft is draft:
            break
        if earlier_draft.seat == draft.seat:
            exchanges.append((earlier_draft.prompt, earlier_draft.reply.text))
    return tuple(exchanges)


def memory_observation(observation: Observation) -> Observation:
    """Return the observation for the record of a memory that a seat writes before its turn."""
    return observation._replace(key=f"{observation.key}|memory", view=f"{observation.view}|memory")


def first_of_moment(turns: Sequence[Turn], index: int) -> int:
    """Return the index of the first turn of the moment that contains turn ``index``."""
    while 0 < index < len(turns) and turns[index - 1].moment == turns[index].moment:
        index -= 1
    return index


def end_of_moment(turns: Sequence[Turn], index: int) -> int:
    """Return the index after the last turn of the moment that contains turn ``index``."""
    end = index + 1
    while end < len(turns) and turns[end].moment == turns[index].moment:
        end += 1
    return end


def recorded_reply(turn: Turn) -> Reply:
    """Return the reply of a recorded turn.

    Raises:
        GameError: other tokens lie between the turn's sampled spans, so it cannot be replayed.
    """
    indices = [index for index, part in enumerate(turn.segments) if part.kind == "sampled"]
    parts = turn.segments[indices[0] : indices[-1] + 1] if indices else ()
    if len(parts) != len(indices):
        raise GameError(
            f"Turn {turn.turn_index} of seat {turn.seat} was sampled in {len(indices)} spans, with "
            "other tokens between them, and cannot be replayed; choose a prefix without this turn."
        )
    spans = tuple(SampledSpan(len(part.ids), part.weights_version) for part in parts)
    return Reply(
        text=turn.reply,
        ids=tuple(chain.from_iterable(part.ids for part in parts)),
        logprobs=tuple(chain.from_iterable(part.logprobs for part in parts)),
        support=tuple(chain.from_iterable(part.support for part in parts)),
        truncated=turn.truncated,
        weights_version=turn.weights_version,
        spans=spans if len(spans) > 1 else (),
    )


def num_sampled_tokens(turn: Turn) -> int:
    """Return the number of sampled tokens of a turn; 0 for agents without tokens."""
    return sum(len(segment.ids) for segment in turn.segments if segment.kind == "sampled")


def finished_turns(
    drafts: Sequence[Draft], names: Sequence[str], returns: tuple[float, ...]
) -> tuple[Turn, ...]:
    """Return the turns of a finished episode, with the candidates that were not played.

    The game reward of a turn is the change of its seat's payoff up to the seat's next turn.
    """
    next_returns = list(returns)
    turns: list[Turn] = []
    for draft in reversed(drafts):
        seat = draft.seat
        rewards = {"game": next_returns[seat] - draft.returns[seat]}
        if draft.penalty:
            rewards |= draft.penalty_rewards
        next_returns[seat] = draft.returns[seat]
        turn = draft.to_turn(names[seat], rewards)
        if draft.unplayed:
            candidates = tuple(
                other.to_turn(names[seat], other.penalty_rewards) for other in draft.unplayed
            )
            turn = turn._replace(candidates=candidates)
        turns.append(turn)
    return tuple(reversed(turns))


def episode_record(
    spec: EpisodeSpec,
    names: tuple[str, ...],
    turns: Sequence[Turn],
    returns: tuple[float, ...],
    *,
    offender: int | None = None,
    cut: bool = False,
) -> Episode:
    """Return the record of the episode of ``spec``."""
    return Episode(
        episode_id=spec.episode_id,
        group_id=spec.group_id,
        game=spec.game.name,
        seed=spec.deal.key,
        roles=spec.game.roles,
        agents=names,
        players=spec.players,
        trained=spec.trained,
        turns=tuple(turns),
        returns=returns,
        forfeited_by=offender,
        cut=cut,
        has_outgrown_context=cut and any(turn.event == "unsent" for turn in turns),
        environment=spec_of(spec.game),
    )


Commit = Literal["best", "any_best", "random"]
# returns the score of each turn of the episodes, a row per episode; None: not judged
Grade = Callable[[Sequence[Episode]], Sequence[Sequence[float | None]]]


@dataclass(frozen=True, slots=True)
class Candidates:
    """The rule by which the replies to one prompt are sampled, judged and committed."""

    count: int  # number of replies to each prompt, at least 2
    grade: Grade
    commit: Commit = "any_best"  # see ``committed_candidate``
    explore: float = 0.0  # share of the decisions in which ``random`` is committed


def committed_candidate(
    scores: Sequence[float | None], commit: Commit, explore: float, stream: Stream
) -> int:
    """Return the index of the reply that is committed.

    Args:
        scores: score of each reply; None: it was not judged, and ranks below all scores.
        commit: "best": the first reply with the largest score; "any_best": a random one of the
            replies with the largest score; "random": reply 0, as the replies are equally
            distributed.
        explore: probability of committing as with "random" instead.
        stream: the decision's stream.
    """
    judged_scores = [score for score in scores if score is not None]
    if commit == "random" or not judged_scores or (explore and stream.uniform(0) < explore):
        return 0
    best_score = max(judged_scores)
    best_indices = [index for index, score in enumerate(scores) if score == best_score]
    return best_indices[0 if commit == "best" else stream.integer(1, len(best_indices))]


def notice_of_illegal(
    environment: Environment, play: Play, draft: Draft, replacement: str | None = None
) -> str:
    """Return the notice for a seat after an illegal reply.

    Args:
        environment: its method ``correction``, if any, gives the wording.
        play: the play in the state of the reply.
        draft: the turn of the reply.
        replacement: the random action that is played instead; None: the seat may try again.
    """
    if isinstance(environment, HasCorrection):
        return environment.correction(play, draft.read_action, replacement)
    if environment.brief:  # a small vocabulary has no words for a complaint
        return draft.observation.text if replacement is None else replacement
    complaint = (
        "Your reply contained no action."
        if draft.read_action is None
        else f"The action {draft.read_action} is not legal now."
    )
    if replacement is not None:
        return f"{complaint} The action {replacement} was played for you."
    return f"{complaint} {draft.observation.ask or draft.observation.prompt}"


class CheckedPlay:
    """A wrapper that checks all return values of a play of a user-defined environment.

    Args:
        game: the environment.
        play: one of its plays.

    Raises:
        GameError: ``max_turns`` is not a whole number of at least 1.
    """

    __slots__ = ("_game", "_play")

    def __init__(self, game: Environment, play: Play) -> None:
        self._game, self._play = game, play
        if type(game.max_turns) is not int or game.max_turns < 1:
            raise GameError(
                f"{game.name}: max_turns={quoted(game.max_turns)} must be a whole number of at "
                "least 1: the largest number of replies of all seats in an episode."
            )

    def due(self) -> tuple[int, ...]:
        """Return the due seats, ascending."""
        due, num_seats = self._play.due(), self._game.num_seats
        if not (
            isinstance(due, tuple | list)
            and due
            and all(type(seat) is int and 0 <= seat < num_seats for seat in due)
            and list(due) == sorted(set(due))
        ):
            raise self._error(
                f"due() returned {quoted(due)}, but the play is not done; return a tuple of the "
                f"due seats, ascending, from 0 to {num_seats - 1}"
            )
        return tuple(due)

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return the legal actions of a seat; None: any text."""
        actions: tuple[str, ...] | None = self._play.legal(seat)
        if actions is None:
            return None
        if not (
            isinstance(actions, tuple)
            and actions
            and all(isinstance(action, str) for action in actions)
            and len(set(actions)) == len(actions)
        ):
            raise self._error(
                f"legal({seat}) returned {quoted(actions)}; return a tuple of different "
                "texts, or None if any text is an action"
            )
        return actions

    def observe(self, seat: int) -> Observation:
        """Return the observation of a seat."""
        observation: Observation = self._play.observe(seat)
        if not (
            isinstance(observation, Observation)
            and all(isinstance(part, str) for part in observation[:4])
            and type(observation.attempt) is int
            and type(observation.note) is bool
        ):
            raise self._error(
                f"observe({seat}) returned {quoted(observation)}; return an Observation whose "
                "prompt, key, view and ask are texts"
            )
        if observation.messages or observation.prefill:
            self._check_messages(seat, observation)
        return observation

    def _check_messages(self, seat: int, observation: Observation) -> None:
        """Check the messages before a prompt: their types, and the order of their roles."""
        messages: Any = observation.messages
        if not (
            isinstance(observation.prefill, str)
            and isinstance(messages, tuple)
            and all(isinstance(message, ChatMessage) for message in messages)
            and all(isinstance(part, str) for message in messages for part in message)
            and can_precede_user(messages)
        ):
            raise self._error(
                f"observe({seat}) has messages={quoted(messages)} and prefill="
                f"{quoted(observation.prefill)}; return a text as prefill, and a tuple of "
                "ChatMessage: a system message, if any, then user and assistant in turn, at last "
                "the assistant"
            )

    @property
    def returns(self) -> tuple[float, ...]:
        """Payoffs so far of all seats."""
        return payoffs(self._game, self._play.returns)

    def check_action(self, action: Any) -> str | None:
        """Return the action that the environment has read in a reply."""
        if not (action is None or isinstance(action, str)):
            raise self._error(f"read() returned {quoted(action)}; return a text, or None")
        return action

    def _error(self, problem: str) -> GameError:
        return GameError(f"{self._game.name}: {problem}.")


def with_checks(game: Environment, play: Play) -> Any:
    """Return the play with checks, or the play itself if OpenSpiel has its rules."""
    return play if is_searchable(game) else CheckedPlay(game, play)


def payoffs(game: Environment, values: Any) -> tuple[float, ...]:
    """Return the payoffs of all seats.

    Raises:
        GameError: the values are not one finite number per seat.
    """
    try:
        returns = tuple(values)
        is_valid = len(returns) == game.num_seats and all(map(math.isfinite, returns))
    except TypeError:
        is_valid = False
    if not is_valid:
        raise GameError(
            f"{game.name}: returns must be one finite number per seat, got {quoted(values)}."
        )
    return returns


class EpisodeInPlay:
    """An episode that is being played: the play, the turns so far, and ledgers of tokens.

    A moment is the set of decisions that are due at one time. ``ask`` returns these decisions, and
    ``answer`` takes all their replies. With candidates, ``take_replies`` takes all replies,
    ``candidates`` returns the replies to judge, and ``commit`` plays one per decision. At the end
    the caller must call ``close``.
    """

    __slots__ = (
        "_candidates",
        "_checked_play",
        "_closed",
        "_drafts",
        "_forfeit",
        "_ledgers",
        "_max_actions",
        "_moment",
        "_moment_actions",
        "_needs_exact_action",
        "_notices",
        "_num_illegal",
        "_num_played",
        "_num_turns",
        "_retrying_seats",
        "done",
        "due_drafts",
        "names",
        "play",
        "spec",
    )

    def __init__(
        self, spec: EpisodeSpec, agents: Mapping[str, Agent], candidates: Candidates | None = None
    ) -> None:
        self.spec = spec
        self._candidates: Candidates | None = None  # None while the prefix is replayed
        self.play: Play = spec.game.reset(spec.deal)
        self._closed = False
        try:
            self._begin(agents, candidates)
        except BaseException:
            self.close()
            raise

    def _begin(self, agents: Mapping[str, Agent], candidates: Candidates | None) -> None:
        spec = self.spec
        self._checked_play: Any = with_checks(spec.game, self.play)
        self.names = tuple(map(str, spec.seats))
        self._ledgers = [
            None
            if agent.renderer is None
            else Ledger(
                agent.renderer, agent.context if isinstance(agent, HasContext) else None, spec.game
            )
            for agent in (agents[name] for name in self.names)
        ]
        self._num_turns = [0] * spec.game.num_seats
        self._drafts: list[Draft] = []
        self.due_drafts: list[Draft] = []  # of this moment
        self._moment = self._num_played = 0
        self._max_actions = min(spec.game.max_turns, spec.max_turns or spec.game.max_turns)
        self._retrying_seats: tuple[int, ...] = ()  # seats that try again
        self._moment_actions: dict[int, str] = {}  # actions of this moment, by seat
        self._num_illegal: dict[int, int] = {}  # illegal replies of this moment, by seat
        self._notices: dict[int, str] = {}  # notices of illegal replies, by seat
        self._forfeit: tuple[tuple[float, ...], int] | None = None  # returns, offending seat
        self._needs_exact_action: bool = spec.game.brief  # whether a reply must be the action alone
        self.done: bool = self.play.done
        replay_prefix(self, spec.prefix)
        self._candidates = candidates

    def ask(self) -> list[PendingTurn]:
        """Return the due decisions with their prompts, once for each candidate to sample."""
        returns, self.due_drafts = self._checked_play.returns, []
        due = self._retrying_seats or self._checked_play.due()
        if len(due) == 1:
            return self._prompt_seat(due[0], returns)
        return [turn for seat in due for turn in self._prompt_seat(seat, returns)]

    def _prompt_seat(self, seat: int, returns: tuple[float, ...]) -> list[PendingTurn]:
        play, observation = self.play, self._checked_play.observe(seat)
        ledger = self._ledgers[seat]
        text = observation.transcript if ledger is None else observation.text
        notice, is_retry = "", False
        if self._notices or self._num_illegal:
            notice = self._notices.get(seat, "")
            is_retry = seat in self._retrying_seats and seat in self._num_illegal
        if notice and observation.fresh and not is_retry:  # a new conversation begins
            del self._notices[seat]
            notice = ""
        if notice:
            text = notice if is_retry else f"{notice} {text}"
        legal, memory = self._checked_play.legal(seat), None
        if ledger is not None:
            ledger.ask(text, observation, is_retry=is_retry)
            has_more = observation.messages or observation.prefill
            is_whole = has_more and ledger.prompt == observation.text
            text = observation.transcript if is_whole else ledger.prompt
            memory = ledger.memory_example
        if memory is not None:  # the turn's own prompt comes after the memory
            observation, legal = memory_observation(observation), None
        elif notice:
            del self._notices[seat]
        number, turn_index, moment = len(self._drafts) + 1, self._num_turns[seat], self._moment
        draft = Draft(
            number, seat, turn_index, observation, returns, text, legal, moment, memory is not None
        )
        self._drafts.append(draft)
        self.due_drafts.append(draft)
        stream = self.spec.stream.child(number)
        if ledger is None:
            past = partial(past_exchanges, self._drafts, draft)
            return [PendingTurn(play, seat, stream, (), 0, notice, text, past)]
        turn = PendingTurn(play, seat, stream, ledger.ids, ledger.known, memory=memory)
        if self._candidates is None or not self.spec.trained[seat] or draft.is_memory:
            return [turn]
        draft.num_replies, parent = self._candidates.count, stream.child("candidate")
        return [turn, *(turn._replace(stream=parent.child(n)) for n in range(1, draft.num_replies))]

    def oracle_query(self, draft: Draft) -> tuple[Any, Stream]:
        """Return the state of a due decision, and a stream for the random errors of an oracle."""
        stream = Stream(self.spec.deal.key).child("oracle").child(self.spec.episode_id)
        game, play = self.spec.game, copy_play(self.spec.game, self.play)
        return decision_of(game, play, draft.seat, draft.moment), stream.child(draft.number - 1)

    def answer(
        self, replies: Sequence[Reply], *, replacements: Sequence[str | None] | None = None
    ) -> None:
        """Read the replies to the due prompts, and go on to the next moment or to a retry.

        Args:
            replies: the replies, in the order of ``ask``.
            replacements: the action that replaces each illegal reply; None: a random action.
        """
        self.take_replies(replies)
        self.commit(replacements=replacements)

    def take_replies(self, replies: Sequence[Reply]) -> None:
        """Read the replies to the due prompts, without playing them."""
        index = 0
        for draft in self.due_drafts:
            self._read(draft, replies[index])
            index += draft.num_replies
            if draft.num_replies > 1 and draft.event != "unsent":
                draft.unplayed = [draft.draft_of_candidate(n) for n in range(1, draft.num_replies)]
                for other in draft.unplayed:
                    reply_index = index - draft.num_replies + other.candidate
                    self._read(other, replies[reply_index])

    def candidates(self) -> Episode | None:
        """Return an episode of the candidates that must be judged; None without candidates."""
        first_drafts = [draft for draft in self.due_drafts if draft.unplayed]
        turns = [
            draft.to_turn(self.names[draft.seat], draft.penalty_rewards)._replace(
                segments=sampled_segments(draft.reply)
            )
            for first in first_drafts
            for draft in (first, *first.unplayed)
        ]
        returns = (0.0,) * self.spec.game.num_seats
        return episode_record(self.spec, self.names, turns, returns) if turns else None

    def commit(
        self,
        scores: Sequence[float | None] = (),
        *,
        replacements: Sequence[str | None] | None = None,
    ) -> None:
        """Play the replies that were read.

        Args:
            scores: score of each reply of ``candidates``.
            replacements: the action that replaces each illegal reply; None: a random action.
        """
        if scores:
            next_scores = iter(scores)
            self.due_drafts = [self._commit_best(draft, next_scores) for draft in self.due_drafts]
        offenders: list[Draft] = []
        is_truncated = False
        self._retrying_seats = ()
        for index, draft in enumerate(self.due_drafts):
            self._num_turns[draft.seat] += 1
            ledger = self._ledgers[draft.seat]
            if ledger is not None:
                for other in draft.unplayed:
                    record = ledger.record_unplayed(other.reply)
                    other.conversation, other.segments = record
                draft.conversation, draft.segments = ledger.conversation, ledger.record(draft.reply)
            if draft.event == "ok" and draft.action is not None:
                self._moment_actions[draft.seat] = draft.action
            elif draft.event == "unsent":
                is_truncated = True
            elif draft.is_memory:
                self._retrying_seats += (draft.seat,)
            elif self._handle_illegal(draft, replacements[index] if replacements else None):
                offenders.append(draft)
            elif draft.action is not None:
                self._moment_actions[draft.seat] = draft.action
        self._moment += 1
        if is_truncated:
            self._stop()
        elif offenders:
            game, rule = self.spec.game, self.spec.game.illegal
            all_returns = [rule.forfeit_returns(game, self.play, draft.seat) for draft in offenders]
            returns = tuple(all_returns[0])
            if len(offenders) > 1:
                returns = tuple(
                    sum(seat_returns) / len(offenders)
                    for seat_returns in zip(*all_returns, strict=True)
                )
            self._forfeit = (returns, offenders[0].seat)
            self._stop()
        elif not self._retrying_seats:
            self._num_played += len(self._moment_actions)
            self.play.step(self._moment_actions)
            self._moment_actions, self._num_illegal = {}, {}
            self.done = self.play.done or self._num_played >= self._max_actions

    def _commit_best(self, draft: Draft, scores: Iterator[float | None]) -> Draft:
        if not draft.unplayed:
            return draft
        drafts = [draft, *draft.unplayed]
        for candidate_draft in drafts:
            candidate_draft.score = next(scores)
        rule = self._candidates
        assert rule is not None, "without candidates a prompt has one reply"
        stream = self.spec.stream.child(draft.number).child("commit")
        index = committed_candidate(
            [candidate_draft.score for candidate_draft in drafts], rule.commit, rule.explore, stream
        )
        draft.unplayed = []
        committed_draft = drafts.pop(index)
        committed_draft.unplayed = drafts
        self._drafts[draft.number - 1] = committed_draft
        return committed_draft

    def _read(self, draft: Draft, reply: Reply) -> None:
        seat, legal = draft.seat, draft.legal
        ledger = self._ledgers[seat]
        if ledger is not None and is_unsent(reply):
            draft.reply, draft.event, draft.read_action, draft.verdict = reply, "unsent", None, None
            return
        if draft.is_memory:
            draft.reply, draft.event, draft.read_action = reply, "memory", None
            return
        if ledger is None:
            action = read_reply(self.play, seat, legal, reply.text, self._needs_exact_action)
        else:
            answer = ledger.read(reply.text)
            exact = self._needs_exact_action or ledger.renderer.exact_answers
            action = None if answer is None else read_reply(self.play, seat, legal, answer, exact)
        if isinstance(self._checked_play, CheckedPlay):
            action = self._checked_play.check_action(action)
        event: TurnEvent = (
            "unparsable"
            if action is None
            else "ok"
            if legal is None or action in legal
            else "illegal"
        )
        draft.reply, draft.event, draft.read_action = reply, event, action
        draft.action = action if event == "ok" else None
        if event != "ok":
            draft.penalty = self.spec.game.illegal.penalty

    def _handle_illegal(self, draft: Draft, replacement: str | None) -> bool:
        """Apply the environment's rule for illegal replies, and return whether the seat forfeits.

        Args:
            draft: the illegal reply.
            replacement: the action that is played instead; None: a random action.
        """
        game, seat = self.spec.game, draft.seat
        rule = game.illegal
        if rule.rule == "forfeit":
            return True
        if rule.rule == "retry" and self._num_illegal.get(seat, 0) < rule.retries:
            self._num_illegal[seat] = self._num_illegal.get(seat, 0) + 1
            self._retrying_seats += (seat,)
            self._notices[seat] = notice_of_illegal(game, self.play, draft)
            return False
        stream = self.spec.stream.child(draft.number).child("random move")
        draft.action = replacement or random_reply(self.play, seat, draft.legal, stream)
        self._notices[seat] = notice_of_illegal(game, self.play, draft, draft.action)
        return False

    def _stop(self) -> None:
        for draft in self.due_drafts:
            draft.action = None
        self.done = True

    def close(self) -> None:
        """Close the play; a second call does nothing."""
        if not self._closed:
            self._closed = True
            close_play(self.play)

    def finish(self) -> Episode:
        """Return the record of the finished episode.

        Raises:
            GameError: the payoffs are not one finite number per seat.
        """
        values, offender = self._forfeit if self._forfeit is not None else (self.play.returns, None)
        returns = payoffs(self.spec.game, values)
        turns = finished_turns(self._drafts, self.names, returns)
        cut = self._forfeit is None and not self.play.done
        return episode_record(self.spec, self.names, turns, returns, offender=offender, cut=cut)


def replay_prefix(episode: EpisodeInPlay, prefix: Sequence[Turn]) -> None:
    """Replay the first turns of another episode with the same deal, without unplayed candidates.

    Raises:
        GameError: the turns are of another episode, or end in the middle of a moment.
    """
    spec, index = episode.spec, 0
    redealt_play = episode.play if spec.redealt and isinstance(episode.play, Redealable) else None
    if redealt_play is not None and not prefix:
        redealt_play.redeal(spec.stream.child("chance"))
    while index < len(prefix):
        due = [] if episode.done else episode.ask()
        turns = prefix[index : index + len(due)]
        index += len(due)
        if not due or [turn.seat for turn in turns] != [draft.seat for draft in episode.due_drafts]:
            raise GameError(
                f"{spec.game.name}: the turns of the prefix end in the middle of a moment, or are "
                "of another episode; take complete moments of one episode."
            )
        if redealt_play is not None and index == len(prefix):
            redealt_play.redeal(spec.stream.child("chance"))
        for draft, turn in zip(episode.due_drafts, turns, strict=True):
            draft.verdict, draft.candidate, draft.score = turn.verdict, turn.candidate, turn.score
        episode.answer(
            [recorded_reply(turn) for turn in turns], replacements=[turn.action for turn in turns]
        )
