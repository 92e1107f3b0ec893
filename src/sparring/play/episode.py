"""An episode that is being played: prompts to the due seats, their replies, and the record.

With candidates, the policy gives K replies to every prompt of a trained seat. Each reply is judged,
one is *committed*, which means played, and all K are recorded as one state group. Reply 0 has the
same stream as in a run without candidates, so a run that always commits reply 0 equals such a run.

Episodes of user-defined environments are checked; those of OpenSpiel's games are not. A fault is a
``GameError``: the group is dropped and counted, and the log says what to mend.
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
    Episode,
    Observation,
    SampledSpan,
    Segment,
    Turn,
    TurnEvent,
    Verdict,
)
from sparring.core.rng import Stream
from sparring.environments.base import (
    Environment,
    HasCorrection,
    Play,
    Redealable,
    close_play,
    random_reply,
    read_reply,
    spec_of,
)
from sparring.environments.foreign import no_rules
from sparring.environments.situation import copy_play, decision_of
from sparring.play.context.base import Ledger, is_unsent, sampled_segments
from sparring.play.players.base import Agent, HasContext, PendingTurn, Reply

if TYPE_CHECKING:
    from sparring.play.spec import EpisodeSpec


class Draft:
    """A turn under construction: the due decision, then its reply and the action played.

    Attributes:
        number: number of the decision in the episode, from 1; in one moment in order of seats.
        seat: the seat that decides.
        turn_index: index of the turn among the turns of the seat, from 0.
        observation: the seat's observation.
        returns: payoffs so far, [num_seats].
        prompt: the observation's text, preceded by a notice if the last reply was illegal.
        legal: the legal actions; None: any text.
        moment: number of the moment in the play; equal for simultaneous decisions.
        memory: whether the reply is a memory, which takes no action.
        read_action: the action in the reply, legal or not.
        action: the action that is played.
        candidate: number of the reply among those to one prompt.
        num_replies: number of replies to the prompt.
        others: the replies to the same prompt that are not played.
        score: the reply's score among the candidates.
    """

    __slots__ = (
        *("action", "candidate", "conversation", "event", "legal", "memory", "moment", "number"),
        *("num_replies", "observation", "others", "penalty", "prompt", "read_action", "reply"),
        *("returns", "score", "seat", "segments", "turn_index", "verdict"),
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
        memory: bool = False,
    ) -> None:
        self.number, self.seat, self.turn_index = number, seat, turn_index
        self.observation = observation
        self.returns, self.prompt, self.legal, self.moment = returns, prompt, legal, moment
        self.memory = memory
        self.action: str | None = None
        self.penalty = 0.0
        self.conversation = 0
        self.segments: tuple[Segment, ...] = ()
        self.verdict: Verdict | None = None
        self.candidate, self.num_replies = 0, 1
        self.others: list[Draft] = []
        self.score: float | None = None

    def sibling(self, candidate: int) -> Draft:
        """Return the same decision, for another reply to it."""
        other = Draft(
            self.number,
            self.seat,
            self.turn_index,
            self.observation,
            self.returns,
            self.prompt,
            self.legal,
            self.moment,
        )
        other.verdict, other.candidate = self.verdict, candidate
        return other

    def turn(self, agent: str, rewards: dict[str, float]) -> Turn:
        """Return the finished record."""
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
    for earlier in drafts:
        if earlier.seat == draft.seat and earlier.observation.fresh:
            exchanges = []
        if earlier is draft:
            break
        if earlier.seat == draft.seat:
            exchanges.append((earlier.prompt, earlier.reply.text))
    return tuple(exchanges)


def for_memory(observation: Observation) -> Observation:
    """Return the observation that is recorded for the memory before this turn."""
    return observation._replace(key=f"{observation.key}|memory", view=f"{observation.view}|memory")


def moment_begin(turns: Sequence[Turn], place: int) -> int:
    """Return the place of the first turn in the moment of turn ``place``."""
    while 0 < place < len(turns) and turns[place - 1].moment == turns[place].moment:
        place -= 1
    return place


def moment_end(turns: Sequence[Turn], place: int) -> int:
    """Return the place after the last turn in the moment of turn ``place``."""
    end = place + 1
    while end < len(turns) and turns[end].moment == turns[place].moment:
        end += 1
    return end


def recorded_reply(turn: Turn) -> Reply:
    """Return the reply of a recorded turn.

    Raises:
        GameError: the turn has other tokens between its sampled spans, and cannot be replayed.
    """
    places = [place for place, part in enumerate(turn.segments) if part.kind == "sampled"]
    parts = turn.segments[places[0] : places[-1] + 1] if places else ()
    if len(parts) != len(places):
        raise GameError(
            f"Turn {turn.turn_index} of seat {turn.seat} was sampled in {len(places)} spans, with "
            "other tokens between them, and cannot be replayed; end the prefix before it."
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


def sampled_tokens(turn: Turn) -> int:
    """Return the number of sampled tokens of a turn; 0 for agents without tokens."""
    return sum(len(segment.ids) for segment in turn.segments if segment.kind == "sampled")


def finished_turns(
    drafts: Sequence[Draft], names: Sequence[str], returns: tuple[float, ...]
) -> tuple[Turn, ...]:
    """Return the turns of a finished episode, with the candidates that were not played.

    The game reward of a turn is the change of its seat's payoff up to the seat's next turn.
    """
    upcoming = list(returns)
    turns: list[Turn] = []
    for draft in reversed(drafts):
        seat = draft.seat
        rewards = {"game": upcoming[seat] - draft.returns[seat]}
        if draft.penalty:
            rewards |= draft.penalty_rewards
        upcoming[seat] = draft.returns[seat]
        turn = draft.turn(names[seat], rewards)
        if draft.others:
            others = tuple(other.turn(names[seat], other.penalty_rewards) for other in draft.others)
            turn = turn._replace(candidates=others)
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
# the score of each turn of these episodes, a row per episode; None: not judged
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
    """Return the number of the reply that is committed.

    Args:
        scores: score of each reply; None: it was not judged, and ranks below all scores.
        commit: "best": the first reply with the largest score; "any_best": one of these, drawn
            uniformly; "random": reply 0, as all replies have the same distribution.
        explore: probability of "random" instead.
        stream: the decision's stream.
    """
    judged = [score for score in scores if score is not None]
    if commit == "random" or not judged or (explore and stream.uniform(0) < explore):
        return 0
    best = [number for number, score in enumerate(scores) if score == max(judged)]
    return best[0] if commit == "best" else best[stream.integer(1, len(best))]


def correction(
    environment: Environment, play: Play, draft: Draft, played: str | None = None
) -> str:
    """Return the notice for a seat after an illegal reply.

    Args:
        environment: its method ``correction``, if any, gives the wording.
        play: the play in the state of the reply.
        draft: the turn of the reply.
        played: the random action in its place, or None if the seat may try again.
    """
    if isinstance(environment, HasCorrection):
        return environment.correction(play, draft.read_action, played)
    if environment.brief:  # the vocabulary is small
        return draft.observation.text if played is None else played
    complaint = (
        "Your reply contained no action."
        if draft.read_action is None
        else f"The action {draft.read_action} is not legal now."
    )
    if played is not None:
        return f"{complaint} The action {played} was played for you."
    return f"{complaint} {draft.observation.ask or draft.observation.prompt}"


class CheckedPlay:
    """A play of a user-defined environment whose answers are checked.

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
        due, seats = self._play.due(), self._game.num_seats
        if not (
            isinstance(due, tuple | list)
            and due
            and all(type(seat) is int and 0 <= seat < seats for seat in due)
            and list(due) == sorted(set(due))
        ):
            raise self._error(
                f"due() gave {quoted(due)}, and the play is not done; give a tuple of the due "
                f"seats, ascending, of 0 to {seats - 1}"
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
                f"legal({seat}) gave {quoted(actions)}; give a tuple of texts, each once, or None "
                "where any text is an action"
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
                f"observe({seat}) gave {quoted(observation)}; give an Observation whose prompt, "
                "key, view and ask are texts"
            )
        return observation

    @property
    def returns(self) -> tuple[float, ...]:
        """Payoffs so far of all seats."""
        return payoffs(self._game, self._play.returns)

    def action(self, action: Any) -> str | None:
        """Return the action that the environment has read in a reply."""
        if not (action is None or isinstance(action, str)):
            raise self._error(f"read() gave {quoted(action)}; give the action as a text, or None")
        return action

    def _error(self, fault: str) -> GameError:
        return GameError(f"{self._game.name}: {fault}.")


def with_checks(game: Environment, play: Play) -> Any:
    """Return the play with checks, or the play itself if it is one of OpenSpiel's."""
    return CheckedPlay(game, play) if no_rules(game) else play


def payoffs(game: Environment, values: Any) -> tuple[float, ...]:
    """Return the payoffs of all seats.

    Raises:
        GameError: they are not one finite number per seat.
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
    """An episode that is being played: the play, a ledger per seat with tokens, and the turns so
    far.

    A moment is the set of decisions that are due at one time. ``ask`` returns these, and ``answer``
    takes all replies to them. With candidates, ``take_replies`` takes all replies, ``candidates``
    returns those to be judged, and ``commit`` plays one. In the end the caller calls ``close``.
    """

    __slots__ = (
        "_again",
        "_candidates",
        "_checked_play",
        "_closed",
        "_drafts",
        "_exact",
        "_final",
        "_ledgers",
        "_limit",
        "_moment",
        "_notices",
        "_num_played",
        "_num_turns",
        "_settled",
        "_tries",
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
        self._limit = min(spec.game.max_turns, spec.max_turns or spec.game.max_turns)
        self._again: tuple[int, ...] = ()  # seats that try again
        self._settled: dict[int, str] = {}  # actions of this moment, by seat
        self._tries: dict[int, int] = {}  # illegal replies of this moment, by seat
        self._notices: dict[int, str] = {}  # notices of illegal replies, by seat
        self._final: tuple[tuple[float, ...], int] | None = None
        self._exact: bool = spec.game.brief  # whether a reply must be the action alone
        self.done: bool = self.play.done
        replay_prefix(self, spec.prefix)
        self._candidates = candidates

    def ask(self) -> list[PendingTurn]:
        """Return the due decisions with their prompts, each once per reply to be sampled."""
        returns, self.due_drafts = self._checked_play.returns, []
        due = self._again or self._checked_play.due()
        if len(due) == 1:
            return self._prompt_seat(due[0], returns)
        return [turn for seat in due for turn in self._prompt_seat(seat, returns)]

    def _prompt_seat(self, seat: int, returns: tuple[float, ...]) -> list[PendingTurn]:
        """Append the prompt of a seat to its conversation, and return its decision."""
        play, observation = self.play, self._checked_play.observe(seat)
        text, notice, is_retry = observation.text, "", False
        if self._notices or self._tries:
            notice = self._notices.get(seat, "")
            is_retry = seat in self._again and seat in self._tries
        if notice and observation.fresh and not is_retry:  # the conversation is over
            del self._notices[seat]
            notice = ""
        if notice:
            text = notice if is_retry else f"{notice} {text}"
        legal, memory = self._checked_play.legal(seat), None
        ledger = self._ledgers[seat]
        if ledger is not None:
            ledger.ask(text, observation, again=is_retry)
            text, memory = ledger.prompt, ledger.memory_example
        if memory is not None:  # the turn's own prompt comes after the memory
            observation, legal = for_memory(observation), None
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
        if self._candidates is None or not self.spec.trained[seat] or draft.memory:
            return [turn]
        draft.num_replies, parent = self._candidates.count, stream.child("candidate")
        return [turn, *(turn._replace(stream=parent.child(n)) for n in range(1, draft.num_replies))]

    def oracle_query(self, draft: Draft) -> tuple[Any, Stream]:
        """Return the state of a due decision, and a stream for the random errors of an oracle."""
        stream = Stream(self.spec.deal.key).child("oracle").child(self.spec.episode_id)
        game, play = self.spec.game, copy_play(self.spec.game, self.play)
        return decision_of(game, play, draft.seat, draft.moment), stream.child(draft.number - 1)

    def answer(
        self, replies: Sequence[Reply], *, instead: Sequence[str | None] | None = None
    ) -> None:
        """Read the replies to the due prompts, and go on to the next moment or second tries.

        Args:
            replies: in the order of ``ask``.
            instead: the action that replaces each illegal reply; None: drawn at random.
        """
        self.take_replies(replies)
        self.commit(instead=instead)

    def take_replies(self, replies: Sequence[Reply]) -> None:
        """Read the replies to the due prompts, without playing them."""
        place = 0
        for draft in self.due_drafts:
            self._read(draft, replies[place])
            place += draft.num_replies
            if draft.num_replies > 1 and draft.event != "unsent":
                draft.others = [draft.sibling(number) for number in range(1, draft.num_replies)]
                for other in draft.others:
                    self._read(other, replies[place - draft.num_replies + other.candidate])

    def candidates(self) -> Episode | None:
        """Return an episode of the candidates that must be judged; None without candidates."""
        first_drafts = [draft for draft in self.due_drafts if draft.others]
        turns = [
            draft.turn(self.names[draft.seat], draft.penalty_rewards)._replace(
                segments=sampled_segments(draft.reply)
            )
            for first in first_drafts
            for draft in (first, *first.others)
        ]
        returns = (0.0,) * self.spec.game.num_seats
        return episode_record(self.spec, self.names, turns, returns) if turns else None

    def commit(
        self, scores: Sequence[float | None] = (), *, instead: Sequence[str | None] | None = None
    ) -> None:
        """Play the replies that were read.

        Args:
            scores: score of each reply of ``candidates``.
            instead: as for ``answer``.
        """
        if scores:
            remaining = iter(scores)
            self.due_drafts = [self._commit_best(draft, remaining) for draft in self.due_drafts]
        offenders: list[Draft] = []
        truncated = False
        self._again = ()
        for place, draft in enumerate(self.due_drafts):
            self._num_turns[draft.seat] += 1
            ledger = self._ledgers[draft.seat]
            if ledger is not None:
                for other in draft.others:
                    other.conversation, other.segments = ledger.record_unplayed(other.reply)
                draft.conversation, draft.segments = ledger.conversation, ledger.record(draft.reply)
            if draft.event == "ok" and draft.action is not None:
                self._settled[draft.seat] = draft.action
            elif draft.event == "unsent":
                truncated = True
            elif draft.memory:
                self._again += (draft.seat,)
            elif self._punish(draft, instead[place] if instead else None):
                offenders.append(draft)
            elif draft.action is not None:
                self._settled[draft.seat] = draft.action
        self._moment += 1
        if truncated:
            self._stop()
        elif offenders:
            game = self.spec.game
            rows = [game.illegal.forfeit_returns(game, self.play, d.seat) for d in offenders]
            means = tuple(sum(column) / len(rows) for column in zip(*rows, strict=True))
            self._final = (means if len(rows) > 1 else tuple(rows[0]), offenders[0].seat)
            self._stop()
        elif not self._again:
            self._num_played += len(self._settled)
            self.play.step(self._settled)
            self._settled, self._tries = {}, {}
            self.done = self.play.done or self._num_played >= self._limit

    def _commit_best(self, draft: Draft, scores: Iterator[float | None]) -> Draft:
        if not draft.others:
            return draft
        drafts = [draft, *draft.others]
        for candidate in drafts:
            candidate.score = next(scores)
        rule = self._candidates
        assert rule is not None, "without candidates a prompt has one reply"
        stream = self.spec.stream.child(draft.number).child("commit")
        place = committed_candidate(
            [candidate.score for candidate in drafts], rule.commit, rule.explore, stream
        )
        draft.others = []
        committed = drafts.pop(place)
        committed.others = drafts
        self._drafts[draft.number - 1] = committed
        return committed

    def _read(self, draft: Draft, reply: Reply) -> None:
        seat, legal = draft.seat, draft.legal
        ledger = self._ledgers[seat]
        if ledger is not None and is_unsent(reply):
            draft.reply, draft.event, draft.read_action, draft.verdict = reply, "unsent", None, None
            return
        if draft.memory:
            draft.reply, draft.event, draft.read_action = reply, "memory", None
            return
        if ledger is None:
            action = read_reply(self.play, seat, legal, reply.text, self._exact)
        else:
            answer = ledger.read(reply.text)
            exact = self._exact or ledger.renderer.exact_answers
            action = None if answer is None else read_reply(self.play, seat, legal, answer, exact)
        if isinstance(self._checked_play, CheckedPlay):
            action = self._checked_play.action(action)
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

    def _punish(self, draft: Draft, replacement: str | None) -> bool:
        """Apply the environment's rule for illegal replies, and return whether the seat forfeits.

        Args:
            draft: the illegal reply.
            replacement: the action in its place; None: drawn at random.
        """
        game, seat = self.spec.game, draft.seat
        rule = game.illegal
        if rule.rule == "forfeit":
            return True
        if rule.rule == "retry" and self._tries.get(seat, 0) < rule.retries:
            self._tries[seat] = self._tries.get(seat, 0) + 1
            self._again += (seat,)
            self._notices[seat] = correction(game, self.play, draft)
            return False
        stream = self.spec.stream.child(draft.number).child("random move")
        draft.action = replacement or random_reply(self.play, seat, draft.legal, stream)
        self._notices[seat] = correction(game, self.play, draft, draft.action)
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
        values, offender = self._final if self._final is not None else (self.play.returns, None)
        returns = payoffs(self.spec.game, values)
        turns = finished_turns(self._drafts, self.names, returns)
        cut = self._final is None and not self.play.done
        return episode_record(self.spec, self.names, turns, returns, offender=offender, cut=cut)


def replay_prefix(episode: EpisodeInPlay, prefix: Sequence[Turn]) -> None:
    """Replay the first turns of another episode of this deal, without unplayed candidates.

    Raises:
        GameError: the turns are of another episode, or do not end with a moment.
    """
    spec, place = episode.spec, 0
    redealt_play = episode.play if spec.redealt and isinstance(episode.play, Redealable) else None
    if redealt_play is not None and not prefix:
        redealt_play.redeal(spec.stream.child("chance"))
    while place < len(prefix):
        due = [] if episode.done else episode.ask()
        turns = prefix[place : place + len(due)]
        place += len(due)
        if not due or [turn.seat for turn in turns] != [draft.seat for draft in episode.due_drafts]:
            raise GameError(
                f"{spec.game.name}: the turns of the prefix do not end with a moment, or are of "
                "another episode; take complete moments of one episode."
            )
        if redealt_play is not None and place == len(prefix):
            redealt_play.redeal(spec.stream.child("chance"))
        for draft, turn in zip(episode.due_drafts, turns, strict=True):
            draft.verdict, draft.candidate, draft.score = turn.verdict, turn.candidate, turn.score
        episode.answer(
            [recorded_reply(turn) for turn in turns], instead=[turn.action for turn in turns]
        )
