"""One game as it is played: ask the seat whose turn it is, judge the reply, go on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sparring.environments.openspiel.base import State
from sparring.environments.spec import spec_of
from sparring.errors import GameError
from sparring.players.base import Agent, PendingTurn, Reply
from sparring.rng import Stream
from sparring.rollout.ledger import Ledger
from sparring.types import Episode, Observation, Segment, Turn, TurnEvent, Verdict

if TYPE_CHECKING:
    from sparring.rollout.play import EpisodeSpec


class EpisodeInPlay:
    """A game that is being played.

    Its state, a ledger per token-speaking seat, and the turns so far.
    """

    __slots__ = (
        "_drafts",
        "_final",
        "_ledgers",
        "_legal",
        "_max_turns",
        "_notices",
        "_own_turns",
        "_seen",
        "_tries",
        "agent_name",
        "done",
        "spec",
        "state",
    )

    def __init__(self, spec: EpisodeSpec, agents: Mapping[str, Agent]) -> None:
        self.spec = spec
        self.state = spec.game.reset(spec.deal)
        self._ledgers = [
            Ledger(agents[name].renderer) if agents[name].renderer is not None else None
            for name in spec.seats
        ]
        self._seen = [0] * spec.game.num_seats  # plies each seat has been told of
        self._own_turns = [0] * spec.game.num_seats
        self._drafts: list[_Draft] = []
        self._tries = 0
        self._max_turns = min(spec.game.max_turns, spec.max_turns or spec.game.max_turns)
        # what a seat is still to be told about its last, illegal reply
        self._notices: dict[int, str] = {}
        self._final: tuple[tuple[float, ...], int] | None = None
        self._legal: tuple[str, ...] = ()
        self.done = self.state.done
        self.agent_name = "" if self.done else spec.seats[self.state.seat]
        for number, turn in enumerate(spec.prefix):
            if spec.redealt and number == len(spec.prefix) - 1:
                self.state.stream = spec.stream.child("chance")
            self.pending()
            self.judged(turn.verdict)
            self.advance(_said(turn), instead=turn.action)

    def pending(self) -> PendingTurn:
        """Return the decision that is due, its text told to the seat."""
        state, seat = self.state, self.state.seat
        observation = state.observe(seat, self._seen[seat])
        self._legal = state.legal_actions()
        notice = self._notices.pop(seat, "")
        told = self._told(observation.text, notice)
        self._drafts.append(_Draft(seat, self._own_turns[seat], observation, state.returns, told))
        stream = self.spec.stream.child(len(self._drafts))
        ledger = self._ledgers[seat]
        if ledger is None:
            return PendingTurn(state=state, seat=seat, stream=stream, notice=notice)
        ledger.ask(told)
        return PendingTurn(
            state=state, seat=seat, stream=stream, ids=ledger.ids, known=ledger.known
        )

    def question(self) -> tuple[State, Stream]:
        """Return the state of the decision that is due, and what an oracle that errs draws from."""
        stream = Stream(self.spec.deal.key).child("oracle").child(self.spec.episode_id)
        return self.state.clone(), stream.child(len(self._drafts) - 1)

    def judged(self, verdict: Verdict | None) -> None:
        """Take note of what an oracle says of the decision that is due."""
        self._drafts[-1].verdict = verdict

    def _told(self, text: str, notice: str) -> str:
        """Return what a seat is told.

        News, with a word about its last reply if that was not legal.
        """
        if not notice:
            return text
        return notice if self._tries else f"{notice} {text}"

    def advance(self, reply: Reply, *, instead: str | None = None) -> None:
        """Judge the reply and go on to the next decision, or to the end.

        ``instead`` is known to be played for an illegal one.
        """
        state, draft, legal = self.state, self._drafts[-1], self._legal
        seat = draft.seat
        ledger = self._ledgers[seat]
        if ledger is None:
            action = state.parse(reply.text)
        else:
            named = ledger.read(reply.text)
            action = (
                None if named is None else state.parse(named, exact=ledger.renderer.exact_answers)
            )
        event: TurnEvent = (
            "unparsable" if action is None else "ok" if action in legal else "illegal"
        )
        draft.legal, draft.reply, draft.event = legal, reply, event
        if ledger is not None:
            draft.conversation, draft.segments = ledger.conversation, ledger.record(reply)
        self._own_turns[seat] += 1
        if event != "ok":
            action = self._punish(draft, action, instead)
        if action is not None:
            draft.action = action
            self._tries = 0
            self._seen[seat] = state.plies + 1
            state.apply(action)
        self.done = self._final is not None or state.done or state.plies >= self._max_turns
        if not self.done:
            self.agent_name = self.spec.seats[state.seat]

    def _punish(self, draft: _Draft, said: str | None, instead: str | None) -> str | None:
        """Apply the game's rule for replies that are no legal action.

        Return what is played instead, if anything.
        """
        rule = self.spec.game.illegal
        draft.penalty = rule.penalty
        if rule.rule == "forfeit":
            self._final = (
                tuple(rule.forfeit_returns(self.spec.game, self.state, draft.seat)),
                draft.seat,
            )
            return None
        if rule.rule == "retry" and self._tries < rule.retries:
            self._tries += 1
            self._notices[draft.seat] = self.spec.game.correction(self.state, said)
            return None
        chosen = (
            self.spec.stream.child(len(self._drafts))
            .child("random move")
            .integer(0, len(self._legal))
        )
        played = instead or self._legal[chosen]
        self._notices[draft.seat] = self.spec.game.correction(self.state, said, played)
        return played

    def finish(self) -> Episode:
        """Return the finished game as a record.

        A turn's game reward is what its seat earned up to its next turn.

        Raises:
            GameError: the game's payoffs are not one finite number per seat.
        """
        returns, offender = (
            self._final if self._final is not None else (tuple(self.state.returns), None)
        )
        for payoffs in (returns, *(draft.returns for draft in self._drafts)):
            if len(payoffs) != self.spec.game.num_seats or not all(map(math.isfinite, payoffs)):
                raise GameError(
                    f"{self.spec.game.name}: returns must be one finite number per seat, "
                    f"got {payoffs}."
                )
        upcoming = list(returns)
        turns: list[Turn] = []
        for draft in reversed(self._drafts):
            rewards = {"game": upcoming[draft.seat] - draft.returns[draft.seat]}
            if draft.penalty:
                rewards["illegal"] = -draft.penalty
            upcoming[draft.seat] = draft.returns[draft.seat]
            turns.append(
                draft.turn(
                    self.spec.seats[draft.seat], rewards, moment=len(self._drafts) - 1 - len(turns)
                )
            )
        spec = self.spec
        return Episode(
            episode_id=spec.episode_id,
            group_id=spec.group_id,
            game=spec.game.name,
            seed=spec.deal.key,
            roles=spec.game.roles,
            agents=spec.seats,
            trained=spec.trained,
            turns=tuple(reversed(turns)),
            returns=returns,
            forfeited_by=offender,
            cut=self._final is None and not self.state.done,
            environment=spec_of(spec.game),
        )


def _said(turn: Turn) -> Reply:
    """Return a recorded reply.

    Raises:
        GameError: it was sampled in several runs, which cannot be said again in one.
    """
    runs = [segment for segment in turn.segments if segment.kind == "sampled"]
    if len(runs) > 1:
        raise GameError(
            f"Turn {turn.turn_index} of seat {turn.seat} was sampled in {len(runs)} runs; a play "
            "is taken over up to it only."
        )
    sampled = runs[0] if runs else Segment(kind="sampled", ids=())
    return Reply(
        text=turn.reply,
        ids=sampled.ids,
        logprobs=sampled.logprobs,
        kept=sampled.kept,
        truncated=turn.truncated,
        weights_version=turn.weights_version,
    )


class _Draft:
    """A turn that is being played; becomes a Turn when the rewards are known."""

    __slots__ = (
        *("action", "conversation", "event", "legal", "observation", "penalty"),
        *("reply", "returns", "seat", "segments", "told", "turn_index", "verdict"),
    )

    legal: tuple[str, ...]
    reply: Reply
    event: TurnEvent

    def __init__(
        self,
        seat: int,
        turn_index: int,
        observation: Observation,
        returns: tuple[float, ...],
        told: str,
    ) -> None:
        self.seat, self.turn_index, self.observation, self.returns, self.told = (
            seat,
            turn_index,
            observation,
            returns,
            told,
        )
        self.action: str | None = None
        self.penalty = 0.0
        self.conversation = 0
        self.segments: tuple[Segment, ...] = ()
        self.verdict: Verdict | None = None

    def turn(self, agent: str, rewards: dict[str, float], *, moment: int) -> Turn:
        """Return the finished record."""
        return Turn(
            seat=self.seat,
            turn_index=self.turn_index,
            agent=agent,
            state_key=self.observation.key,
            legal_actions=self.legal,
            reply=self.reply.text,
            action=self.action,
            event=self.event,
            rewards=rewards,
            segments=self.segments,
            conversation=self.conversation,
            truncated=self.reply.truncated,
            weights_version=self.reply.weights_version,
            view=self.observation.view,
            told=self.told,
            moment=moment,
            verdict=self.verdict,
        )
