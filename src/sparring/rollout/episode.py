"""One play as it goes on: ask the seats that are due, read their replies, go on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sparring.context.ledger import Ledger, is_unsent, sampled
from sparring.environments.base import close_play, random_reply, read_reply
from sparring.environments.situation import copied, decision_of
from sparring.players.base import Agent, PendingTurn, Reply
from sparring.rng import Stream
from sparring.rollout.candidates import Candidates, chosen
from sparring.rollout.draft import Draft, exchanged, for_memory
from sparring.rollout.illegal import correction
from sparring.rollout.prefix import take_over
from sparring.rollout.protocol import Checked, checked, payoffs
from sparring.rollout.record import earned, recorded
from sparring.types import Episode, TurnEvent

if TYPE_CHECKING:
    from sparring.rollout.spec import EpisodeSpec


class EpisodeInPlay:
    """A play that goes on: its state, a ledger per token-speaking seat, and the turns so far.

    It goes on in moments. ``ask`` gives the decisions that are due, those of several seats at once
    where moves are simultaneous; ``answer`` takes the replies to all of them. Of several replies to
    a prompt ``hear`` takes all, ``candidates`` gives what is to be judged, ``commit`` plays one.
    Whoever makes it calls ``close`` in the end.
    """

    __slots__ = (
        "_again",
        "_asked",
        "_candidates",
        "_closed",
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

    def __init__(
        self, spec: EpisodeSpec, agents: Mapping[str, Agent], candidates: Candidates | None = None
    ) -> None:
        self.spec = spec
        self._candidates: Candidates | None = None  # none in the turns that are taken over
        self.play: Any = spec.game.reset(spec.deal)
        self._closed = False
        try:
            self._begin(agents, candidates)
        except BaseException:
            self.close()
            raise

    def _begin(self, agents: Mapping[str, Agent], candidates: Candidates | None) -> None:
        """Set up the seats, and take over what was played before."""
        spec = self.spec
        self._asked: Any = checked(spec.game, self.play)
        self.names = tuple(map(str, spec.seats))
        self._ledgers = [
            None
            if agent.renderer is None
            else Ledger(agent.renderer, getattr(agent, "context", None), spec.game)
            for agent in (agents[name] for name in self.names)
        ]
        self._own_turns = [0] * spec.game.num_seats
        self._drafts: list[Draft] = []
        self.asked: list[Draft] = []  # whose replies are wanted now
        self._moment = self._taken = 0
        self._limit = min(spec.game.max_turns, spec.max_turns or spec.game.max_turns)
        self._again: tuple[int, ...] = ()  # seats that are to try again
        self._said: dict[int, str] = {}  # actions of this moment that are settled, by seat
        self._tries: dict[int, int] = {}  # illegal replies of this moment, by seat
        self._notices: dict[int, str] = {}  # what seats are still to be told of illegal replies
        self._final: tuple[tuple[float, ...], int] | None = None
        self._exact: bool = spec.game.brief  # a reply is an action, and nothing else
        self.done: bool = self.play.done
        take_over(self, spec.prefix)
        self._candidates = candidates

    def ask(self) -> list[PendingTurn]:
        """Return the decisions that are due, their texts told to the seats.

        One is there as often as replies to it are wanted.
        """
        returns, self.asked = self._asked.returns, []
        due = self._again or self._asked.due()
        if len(due) == 1:
            return self._told(due[0], returns)
        return [turn for seat in due for turn in self._told(seat, returns)]

    def _told(self, seat: int, returns: tuple[float, ...]) -> list[PendingTurn]:
        """Tell a seat what it does not know yet; return its decision."""
        play, observation = self.play, self._asked.observe(seat)
        text, notice, trying = observation.text, "", False
        if self._notices or self._tries:
            notice, trying = (
                self._notices.get(seat, ""),
                seat in self._again and seat in self._tries,
            )
        if notice and observation.fresh and not trying:  # of a conversation that is over
            del self._notices[seat]
            notice = ""
        if notice:
            text = notice if trying else f"{notice} {text}"
        legal, memory = self._asked.legal(seat), None
        ledger = self._ledgers[seat]
        if ledger is not None:
            ledger.ask(text, observation, again=trying)
            text, memory = ledger.told, ledger.wanted
        if memory is not None:  # the seat is told of its turn when it has written its memory
            observation, legal = for_memory(observation), None
        elif notice:
            del self._notices[seat]
        number, own, at = len(self._drafts) + 1, self._own_turns[seat], self._moment
        draft = Draft(number, seat, own, observation, returns, text, legal, at, memory is not None)
        self._drafts.append(draft)
        self.asked.append(draft)
        stream = self.spec.stream.child(number)
        if ledger is None:
            past = partial(exchanged, self._drafts, draft)
            return [PendingTurn(play, seat, stream, (), 0, notice, text, past)]
        turn = PendingTurn(play, seat, stream, ledger.ids, ledger.known, memory=memory)
        if self._candidates is None or not self.spec.trained[seat] or draft.memory:
            return [turn]
        draft.wanted, others = self._candidates.count, stream.child("candidate")
        return [turn, *(turn._replace(stream=others.child(n)) for n in range(1, draft.wanted))]

    def question(self, draft: Draft) -> tuple[Any, Stream]:
        """Return the state of a decision that is due, and what an oracle that errs draws from."""
        stream = Stream(self.spec.deal.key).child("oracle").child(self.spec.episode_id)
        game, play = self.spec.game, copied(self.spec.game, self.play)
        return decision_of(game, play, draft.seat, draft.moment), stream.child(draft.number - 1)

    def answer(
        self, replies: Sequence[Reply], *, instead: Sequence[str | None] | None = None
    ) -> None:
        """Read the replies to what was asked, and go on.

        To the next moment, to the seats that are to try again, or to the end. ``instead`` is known
        to be played for illegal ones.
        """
        self.hear(replies)
        self.commit(instead=instead)

    def hear(self, replies: Sequence[Reply]) -> None:
        """Take the replies to what was asked, without going on."""
        place = 0
        for draft in self.asked:
            self._read(draft, replies[place])
            place += draft.wanted
            if draft.wanted > 1 and draft.event != "unsent":
                draft.others = [draft.sibling(number) for number in range(1, draft.wanted)]
                for other in draft.others:
                    self._read(other, replies[place - draft.wanted + other.candidate])

    def candidates(self) -> Episode | None:
        """Return the replies that are to be judged among those to their prompts, as turns."""
        several = [draft for draft in self.asked if draft.others]
        turns = [
            one.turn(self.names[one.seat], one.fine)._replace(segments=sampled(one.reply))
            for draft in several
            for one in (draft, *draft.others)
        ]
        nothing = (0.0,) * self.spec.game.num_seats
        return recorded(self.spec, self.names, turns, nothing) if turns else None

    def commit(
        self,
        scores: Sequence[float | None] = (),
        *,
        instead: Sequence[str | None] | None = None,
    ) -> None:
        """Go on from the replies that were heard.

        Args:
            scores: of the replies that ``candidates`` gave, in their order.
            instead: what is known to be played for illegal replies.
        """
        if scores:
            given = iter(scores)
            self.asked = [self._chosen(draft, given) for draft in self.asked]
        offenders: list[Draft] = []
        truncated = False
        self._again = ()
        for place, draft in enumerate(self.asked):
            self._own_turns[draft.seat] += 1
            ledger = self._ledgers[draft.seat]
            if ledger is not None:
                self._record(draft, ledger)
            if draft.event == "ok" and draft.action is not None:
                self._said[draft.seat] = draft.action
            elif draft.event == "unsent":
                truncated = True
            elif draft.memory:
                self._again += (draft.seat,)
            elif self._punish(draft, instead[place] if instead else None):
                offenders.append(draft)
            elif draft.action is not None:
                self._said[draft.seat] = draft.action
        self._moment += 1
        if truncated:
            self._stop()
        elif offenders:
            self._forfeit(offenders)
        elif not self._again:
            self._taken += len(self._said)
            self.play.step(self._said)
            self._said, self._tries = {}, {}
            self.done = self.play.done or self._taken >= self._limit

    def _chosen(self, draft: Draft, scores: Iterator[float | None]) -> Draft:
        """Return the reply to this decision that is played, the others beside it."""
        if not draft.others:
            return draft
        several = [draft, *draft.others]
        for one in several:
            one.score = next(scores)
        rule = self._candidates
        assert rule is not None, "without candidates a prompt has one reply"
        stream = self.spec.stream.child(draft.number).child("commit")
        place = chosen([one.score for one in several], rule.commit, rule.explore, stream)
        draft.others = []
        taken = several.pop(place)
        taken.others = several
        self._drafts[draft.number - 1] = taken
        return taken

    def _record(self, draft: Draft, ledger: Ledger) -> None:
        """Make a reply part of its seat's conversation; the others to its prompt end theirs."""
        for other in draft.others:
            other.conversation, other.segments = ledger.aside(other.reply)
        draft.conversation, draft.segments = ledger.conversation, ledger.record(draft.reply)

    def _read(self, draft: Draft, reply: Reply) -> None:
        """Note a reply, and what action it holds."""
        seat, legal = draft.seat, draft.legal
        ledger = self._ledgers[seat]
        if ledger is not None and is_unsent(reply):
            draft.reply, draft.event, draft.named, draft.verdict = reply, "unsent", None, None
            return
        if draft.memory:
            draft.reply, draft.event, draft.named = reply, "memory", None
            return
        if ledger is None:
            action = read_reply(self.play, seat, legal, reply.text, self._exact)
        else:
            named = ledger.read(reply.text)
            exact = self._exact or ledger.renderer.exact_answers
            action = None if named is None else read_reply(self.play, seat, legal, named, exact)
        if isinstance(self._asked, Checked):
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
        if event != "ok":
            draft.penalty = self.spec.game.illegal.penalty

    def _punish(self, draft: Draft, known: str | None) -> bool:
        """Apply the environment's rule for replies that are no legal action.

        Return whether the seat forfeits.
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
        draft.action = known or random_reply(self.play, seat, draft.legal, stream)
        self._notices[seat] = correction(game, self.play, draft, draft.action)
        return False

    def _forfeit(self, offenders: Sequence[Draft]) -> None:
        """End the play by a forfeit; where several seats forfeit at once, by the mean of theirs."""
        game = self.spec.game
        found = [game.illegal.forfeit_returns(game, self.play, one.seat) for one in offenders]
        means = tuple(sum(own) / len(found) for own in zip(*found, strict=True))
        self._final = (means if len(found) > 1 else tuple(found[0]), offenders[0].seat)
        self._stop()

    def _stop(self) -> None:
        """End the episode without playing the replies of this moment."""
        for draft in self.asked:
            draft.action = None
        self.done = True

    def close(self) -> None:
        """Close the play; a second call does nothing."""
        if not self._closed:
            self._closed = True
            close_play(self.play)

    def finish(self) -> Episode:
        """Return the finished game as a record.

        Raises:
            GameError: the game's payoffs are not one finite number per seat.
        """
        found, offender = self._final if self._final is not None else (self.play.returns, None)
        returns = payoffs(self.spec.game, found)
        turns = earned(self._drafts, self.names, returns)
        cut = self._final is None and not self.play.done
        return recorded(self.spec, self.names, turns, returns, offender=offender, cut=cut)
