"""One play as it goes on: ask the seats that are due, read their replies, go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sparring.environments.base import random_reply, read_reply
from sparring.environments.spec import spec_of
from sparring.errors import GameError
from sparring.players.base import Agent, PendingTurn, Reply
from sparring.rng import Stream
from sparring.rollout.draft import Draft, said
from sparring.rollout.illegal import correction
from sparring.rollout.ledger import Ledger
from sparring.rollout.protocol import Asked
from sparring.types import Episode, Turn, TurnEvent

if TYPE_CHECKING:
    from sparring.rollout.play import EpisodeSpec


class EpisodeInPlay:
    """A play that goes on: its state, a ledger per token-speaking seat, and the turns so far.

    It goes on in moments. ``ask`` gives the decisions that are due, those of several seats at once
    where moves are simultaneous; ``answer`` takes the replies to all of them.
    """

    __slots__ = (
        "_again",
        "_asked",
        "_drafts",
        "_exact",
        "_final",
        "_ledgers",
        "_limit",
        "_moment",
        "_notices",
        "_own_turns",
        "_said",
        "_taken",
        "_tries",
        "asked",
        "done",
        "names",
        "play",
        "spec",
    )

    def __init__(self, spec: EpisodeSpec, agents: Mapping[str, Agent]) -> None:
        self.spec = spec
        self._asked = Asked(spec.game)
        self.play: Any = spec.game.reset(spec.deal)
        self.names = tuple(map(str, spec.players))
        self._ledgers = [
            Ledger(agents[name].renderer) if agents[name].renderer is not None else None
            for name in self.names
        ]
        self._own_turns = [0] * spec.game.num_seats
        self._drafts: list[Draft] = []
        self.asked: list[Draft] = []  # whose replies are wanted now
        self._moment = self._taken = 0
        self._limit = min(spec.game.max_turns, spec.max_turns or spec.game.max_turns)
        self._again: tuple[int, ...] = ()  # seats that are to try again
        self._said: dict[int, str] = {}  # actions of this moment that are settled, by seat
        self._tries: dict[int, int] = {}  # illegal replies of this moment, by seat
        # what a seat is still to be told about its last, illegal reply
        self._notices: dict[int, str] = {}
        self._final: tuple[tuple[float, ...], int] | None = None
        self._exact: bool = spec.game.brief  # a reply is an action, and nothing else
        self.done: bool = self.play.done
        if spec.prefix:
            self._take_over(spec.prefix)

    def _take_over(self, prefix: Sequence[Turn]) -> None:
        """Play the turns of another play of this deal again, as they were."""
        place = 0
        while place < len(prefix):
            asked = [] if self.done else self.ask()
            turns = prefix[place : place + len(asked)]
            place += len(asked)
            seats = [draft.seat for draft in self.asked]
            if not asked or [turn.seat for turn in turns] != seats:
                raise GameError(
                    f"{self.spec.game.name}: the turns taken over end between those of one moment, "
                    "or are of another play; take whole moments."
                )
            if self.spec.redealt and place == len(prefix) and hasattr(self.play, "redeal"):
                self.play.redeal(self.spec.stream.child("chance"))
            for draft, turn in zip(self.asked, turns, strict=True):
                draft.verdict = turn.verdict
            self.answer([said(turn) for turn in turns], instead=[turn.action for turn in turns])

    def ask(self) -> list[PendingTurn]:
        """Return the decisions that are due, their texts told to the seats."""
        play, returns = self.play, self._asked.returns(self.play.returns)
        self.asked = []
        return [self._told(play, seat, returns) for seat in self._again or self._asked.due(play)]

    def _told(self, play: Any, seat: int, returns: tuple[float, ...]) -> PendingTurn:
        """Tell a seat what it does not know yet; return its decision."""
        observation = self._asked.observe(play, seat)
        text, notice = observation.text, self._notices.pop(seat, "")
        trying = seat in self._again
        if notice:
            text = notice if trying else f"{notice} {text}"
        legal = self._asked.legal(play, seat)
        draft = Draft(
            len(self._drafts) + 1,
            seat,
            self._own_turns[seat],
            observation,
            returns,
            text,
            legal,
            self._moment,
        )
        self._drafts.append(draft)
        self.asked.append(draft)
        stream = self.spec.stream.child(draft.number)
        ledger = self._ledgers[seat]
        if ledger is None:
            past = partial(self._past, draft)
            return PendingTurn(
                state=play, seat=seat, stream=stream, notice=notice, told=text, past=past
            )
        ledger.ask(text, fresh=observation.fresh and not trying)
        return PendingTurn(state=play, seat=seat, stream=stream, ids=ledger.ids, known=ledger.known)

    def _past(self, draft: Draft) -> tuple[tuple[str, str], ...]:
        """Return what the seat of a decision was told and has replied in this conversation."""
        found: list[tuple[str, str]] = []
        for one in self._drafts:
            if one.seat == draft.seat and one.observation.fresh:
                found = []
            if one is draft:
                break
            if one.seat == draft.seat:
                found.append((one.told, one.reply.text))
        return tuple(found)

    def question(self, draft: Draft) -> tuple[Any, Stream]:
        """Return the state of a decision that is due, and what an oracle that errs draws from."""
        stream = Stream(self.spec.deal.key).child("oracle").child(self.spec.episode_id)
        if not hasattr(self.play, "clone"):
            raise GameError(
                f"{self.spec.game.name}: its plays cannot be copied, so no oracle can judge them; "
                "leave the oracle out, or give the plays a method clone."
            )
        return self.play.clone(), stream.child(draft.number - 1)

    def answer(
        self, replies: Sequence[Reply], *, instead: Sequence[str | None] | None = None
    ) -> None:
        """Read the replies to what was asked, and go on.

        To the next moment, to the seats that are to try again, or to the end. ``instead`` is known
        to be played for illegal ones.
        """
        offenders: list[Draft] = []
        self._again = ()
        known = instead or (None,) * len(replies)
        for draft, reply, played in zip(self.asked, replies, known, strict=True):
            self._read(draft, reply)
            if draft.event != "ok" and self._punish(draft, played):
                offenders.append(draft)
            elif draft.action is not None:
                self._said[draft.seat] = draft.action
        self._moment += 1
        if offenders:
            self._forfeit(offenders)
        elif not self._again:
            self._taken += len(self._said)
            self.play.step(self._said)
            self._said, self._tries = {}, {}
            self.done = self.play.done or self._taken >= self._limit

    def _read(self, draft: Draft, reply: Reply) -> None:
        """Note a reply, and what action it holds."""
        seat, legal = draft.seat, draft.legal
        ledger = self._ledgers[seat]
        if ledger is None:
            action = read_reply(self.play, seat, legal, reply.text, self._exact)
        else:
            named = ledger.read(reply.text)
            exact = self._exact or ledger.renderer.exact_answers
            action = None if named is None else read_reply(self.play, seat, legal, named, exact)
        action = self._asked.action(action)
        event: TurnEvent = (
            "unparsable"
            if action is None
            else "ok"
            if legal is None or action in legal
            else "illegal"
        )
        draft.reply, draft.event, draft.named = reply, event, action
        draft.action = action if event == "ok" else None
        if ledger is not None:
            draft.conversation, draft.segments = ledger.conversation, ledger.record(reply)
        self._own_turns[seat] += 1

    def _punish(self, draft: Draft, known: str | None) -> bool:
        """Apply the environment's rule for replies that are no legal action.

        Return whether the seat forfeits.
        """
        game, seat = self.spec.game, draft.seat
        rule = game.illegal
        draft.penalty = rule.penalty
        if rule.rule == "forfeit":
            return True
        if rule.rule == "retry" and self._tries.get(seat, 0) < rule.retries:
            self._tries[seat] = self._tries.get(seat, 0) + 1
            self._again += (seat,)
            self._notices[seat] = correction(game, self.play, draft)
            return False
        stream = self.spec.stream.child(draft.number).child("random move")
        draft.action = known or random_reply(self.play, seat, draft.legal, stream)
        self._notices[seat] = correction(game, self.play, draft, draft.action)
        return False

    def _forfeit(self, offenders: Sequence[Draft]) -> None:
        """End the play by a forfeit; where several seats forfeit at once, by the mean of theirs."""
        game = self.spec.game
        found = [game.illegal.forfeit_returns(game, self.play, one.seat) for one in offenders]
        means = tuple(sum(own) / len(found) for own in zip(*found, strict=True))
        self._final = (means if len(found) > 1 else tuple(found[0]), offenders[0].seat)
        for draft in self.asked:
            draft.action = None
        self.done = True

    def finish(self) -> Episode:
        """Return the finished game as a record.

        A turn's game reward is what its seat earned up to its next turn.

        Raises:
            GameError: the game's payoffs are not one finite number per seat.
        """
        found, offender = self._final if self._final is not None else (self.play.returns, None)
        returns = self._asked.returns(found)
        upcoming = list(returns)
        turns: list[Turn] = []
        for draft in reversed(self._drafts):
            rewards = {"game": upcoming[draft.seat] - draft.returns[draft.seat]}
            if draft.penalty:
                rewards["illegal"] = -draft.penalty
            upcoming[draft.seat] = draft.returns[draft.seat]
            turns.append(draft.turn(self.names[draft.seat], rewards))
        spec = self.spec
        return Episode(
            episode_id=spec.episode_id,
            group_id=spec.group_id,
            game=spec.game.name,
            seed=spec.deal.key,
            roles=spec.game.roles,
            agents=self.names,
            players=spec.players,
            trained=spec.trained,
            turns=tuple(reversed(turns)),
            returns=returns,
            forfeited_by=offender,
            cut=self._final is None and not self.play.done,
            environment=spec_of(spec.game),
        )
