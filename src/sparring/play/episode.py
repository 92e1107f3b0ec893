"""One play as it goes on: ask the seats that are due, read their replies, go on.

Several replies to one prompt, of which one is played.

In every decision of a trained seat the policy replies K times. Each reply is judged, one is
*committed* and the play goes on from there; all K are recorded as one state group. Reply 0 is drawn
from the stream of a decision without candidates, so a run in which reply 0 is always committed
plays what a run without candidates plays.

What a play of an environment of one's own gives, checked before anything is built on it.

OpenSpiel's plays are ours and are not checked. A fault is a ``GameError``: the play's group is
dropped and counted, and the log names the environment, what it gave and what to give.
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
    SampledRun,
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
from sparring.play.context.base import Ledger, is_unsent, sampled
from sparring.play.players.base import Agent, PendingTurn, Reply

if TYPE_CHECKING:
    from sparring.play.spec import EpisodeSpec


class Draft:
    """A decision that is due, then its reply and what became of it.

    Attributes:
        number: of the decision in the play, from 1; those of one moment count in order of seats.
        seat: who decides.
        turn_index: own-turn index of the seat, from 0.
        observation: what the seat is told.
        returns: payoffs so far, [num_seats].
        told: the observation's text, with a word about the seat's last reply if that was illegal.
        legal: the actions to choose from; None: any text.
        moment: number of the decision in the play; equal for decisions taken at once.
        memory: whether the seat is asked to write its memory, which moves no play.
        named: the action in the reply, legal or not.
        action: what is played.
        candidate: number of the reply among those to one prompt.
        wanted: number of replies that are asked for.
        others: the replies to the same prompt that are not played.
        score: what the reply is judged by among them.
    """

    __slots__ = (
        *("action", "candidate", "conversation", "event", "legal", "memory", "moment", "named"),
        *(
            "number",
            "observation",
            "others",
            "penalty",
            "reply",
            "returns",
            "score",
            "seat",
            "segments",
        ),
        *("told", "turn_index", "verdict", "wanted"),
    )

    reply: Reply
    event: TurnEvent
    named: str | None

    def __init__(
        self,
        number: int,
        seat: int,
        turn_index: int,
        observation: Observation,
        returns: tuple[float, ...],
        told: str,
        legal: tuple[str, ...] | None,
        moment: int,
        memory: bool = False,
    ) -> None:
        self.number, self.seat, self.turn_index = number, seat, turn_index
        self.observation = observation
        self.returns, self.told, self.legal, self.moment = returns, told, legal, moment
        self.memory = memory
        self.action: str | None = None
        self.penalty = 0.0
        self.conversation = 0
        self.segments: tuple[Segment, ...] = ()
        self.verdict: Verdict | None = None
        self.candidate, self.wanted = 0, 1
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
            self.told,
            self.legal,
            self.moment,
        )
        other.verdict, other.candidate = self.verdict, candidate
        return other

    def turn(self, agent: str, rewards: dict[str, float]) -> Turn:
        """Return the finished record."""
        reply, observation = self.reply, self.observation
        return Turn(  # by place, as there are very many
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
            self.told,
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
    def fine(self) -> dict[str, float]:
        """The reward of an illegal reply by itself."""
        return {"illegal": -self.penalty} if self.penalty else {}


def exchanged(drafts: Sequence[Draft], draft: Draft) -> tuple[tuple[str, str], ...]:
    """Return what the seat of a decision was told and has replied in this conversation."""
    found: list[tuple[str, str]] = []
    for one in drafts:
        if one.seat == draft.seat and one.observation.fresh:
            found = []
        if one is draft:
            break
        if one.seat == draft.seat:
            found.append((one.told, one.reply.text))
    return tuple(found)


def for_memory(observation: Observation) -> Observation:
    """Return what is recorded of a turn in which a memory is written before this one is told."""
    return observation._replace(key=f"{observation.key}|memory", view=f"{observation.view}|memory")


def moment_begin(turns: Sequence[Turn], place: int) -> int:
    """Return the place of the first turn that was taken at once with turn ``place``."""
    while 0 < place < len(turns) and turns[place - 1].moment == turns[place].moment:
        place -= 1
    return place


def moment_end(turns: Sequence[Turn], place: int) -> int:
    """Return the place after the last turn that was taken at once with turn ``place``."""
    end = place + 1
    while end < len(turns) and turns[end].moment == turns[place].moment:
        end += 1
    return end


def said(turn: Turn) -> Reply:
    """Return a recorded reply.

    Raises:
        GameError: something was told between its sampled runs, which cannot be said again.
    """
    places = [place for place, part in enumerate(turn.segments) if part.kind == "sampled"]
    parts = turn.segments[places[0] : places[-1] + 1] if places else ()
    if len(parts) != len(places):
        raise GameError(
            f"Turn {turn.turn_index} of seat {turn.seat} was sampled in {len(places)} runs, with "
            "other tokens between them; a play is taken over up to it only."
        )
    runs = tuple(SampledRun(len(part.ids), part.weights_version) for part in parts)
    return Reply(
        text=turn.reply,
        ids=tuple(chain.from_iterable(part.ids for part in parts)),
        logprobs=tuple(chain.from_iterable(part.logprobs for part in parts)),
        kept=tuple(chain.from_iterable(part.kept for part in parts)),
        truncated=turn.truncated,
        weights_version=turn.weights_version,
        runs=runs if len(runs) > 1 else (),
    )


def sampled_tokens(turn: Turn) -> int:
    """Return the number of tokens a reply was sampled with.

    It is 0 for agents that do not speak in tokens.
    """
    return sum(len(segment.ids) for segment in turn.segments if segment.kind == "sampled")


def earned(
    drafts: Sequence[Draft], names: Sequence[str], returns: tuple[float, ...]
) -> tuple[Turn, ...]:
    """Return the turns of a finished play, with the other replies to their prompts.

    A turn's game reward is what its seat earned up to its next turn.
    """
    upcoming = list(returns)
    turns: list[Turn] = []
    for draft in reversed(drafts):
        seat = draft.seat
        rewards = {"game": upcoming[seat] - draft.returns[seat]}
        if draft.penalty:
            rewards |= draft.fine
        upcoming[seat] = draft.returns[seat]
        turn = draft.turn(names[seat], rewards)
        if draft.others:
            others = tuple(other.turn(names[seat], other.fine) for other in draft.others)
            turn = turn._replace(candidates=others)
        turns.append(turn)
    return tuple(reversed(turns))


def recorded(
    spec: EpisodeSpec,
    names: tuple[str, ...],
    turns: Sequence[Turn],
    returns: tuple[float, ...],
    *,
    offender: int | None = None,
    cut: bool = False,
) -> Episode:
    """Return the record of a play that was asked for by ``spec``."""
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
# what each turn of these episodes is worth, a row per episode; None where nothing says so
Grade = Callable[[Sequence[Episode]], Sequence[Sequence[float | None]]]


@dataclass(frozen=True, slots=True)
class Candidates:
    """How the replies to one prompt are drawn, judged and chosen."""

    count: int  # replies to each prompt, at least 2
    grade: Grade  # judges them
    commit: Commit = "any_best"  # see ``chosen``
    explore: float = 0.0  # share of the decisions in which ``random`` is committed


def chosen(scores: Sequence[float | None], commit: Commit, explore: float, stream: Stream) -> int:
    """Return the number of the reply that is committed.

    Args:
        scores: of the replies; one that nothing could judge (None) is below all that were judged.
        commit: "best", the first of the largest score; "any_best", one of these, drawn uniformly;
            "random", reply 0, since all are drawn alike.
        explore: probability of "random" instead.
        stream: of the decision.
    """
    judged = [score for score in scores if score is not None]
    if commit == "random" or not judged or (explore and stream.uniform(0) < explore):
        return 0
    best = [number for number, score in enumerate(scores) if score == max(judged)]
    return best[0] if commit == "best" else best[stream.integer(1, len(best))]


def correction(
    environment: Environment, play: Play, draft: Draft, played: str | None = None
) -> str:
    """Return what a seat is told after a reply that is no legal action.

    Args:
        environment: its own wording is taken where it has any: a method ``correction``.
        play: as it stood when the reply came.
        draft: the reply.
        played: what was played at random in its place, or None if the seat may try again.
    """
    if isinstance(environment, HasCorrection):
        return environment.correction(play, draft.named, played)
    if environment.brief:  # of a vocabulary of its own
        return draft.observation.text if played is None else played
    wrong = (
        "Your reply contained no action."
        if draft.named is None
        else f"The action {draft.named} is not legal now."
    )
    if played is not None:
        return f"{wrong} The action {played} was played for you."
    return f"{wrong} {draft.observation.ask or draft.observation.told}"


class Checked:
    """A play of an environment of one's own, which is asked as the play is.

    Args:
        game: the environment.
        play: one of its plays.

    Raises:
        GameError: its plays would have no end.
    """

    __slots__ = ("_game", "_play")

    def __init__(self, game: Environment, play: Play) -> None:
        self._game, self._play = game, play
        if type(game.max_turns) is not int or game.max_turns < 1:
            raise GameError(
                f"{game.name}: max_turns={quoted(game.max_turns)} must be a whole number of at "
                "least 1: the most replies of all seats that a play takes."
            )

    def due(self) -> tuple[int, ...]:
        """Return the seats that are due in a play that goes on."""
        found, seats = self._play.due(), self._game.num_seats
        if not (
            isinstance(found, tuple | list)
            and found
            and all(type(seat) is int and 0 <= seat < seats for seat in found)
            and list(found) == sorted(set(found))
        ):
            raise self._wrong(
                f"due() gave {quoted(found)}, and the play is not done; give a tuple of the seats "
                f"whose replies are wanted, ascending, of 0 to {seats - 1}"
            )
        return tuple(found)

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return what a seat may choose from."""
        found: tuple[str, ...] | None = self._play.legal(seat)
        if found is None:
            return None
        if not (
            isinstance(found, tuple)
            and found
            and all(isinstance(action, str) for action in found)
            and len(set(found)) == len(found)
        ):
            raise self._wrong(
                f"legal({seat}) gave {quoted(found)}; give a tuple of texts, each once, or None "
                "where any text is an action"
            )
        return found

    def observe(self, seat: int) -> Observation:
        """Return what a seat is told."""
        found: Observation = self._play.observe(seat)
        if not (
            isinstance(found, Observation)
            and all(isinstance(part, str) for part in found[:4])
            and type(found.attempt) is int
            and type(found.note) is bool
        ):
            raise self._wrong(
                f"observe({seat}) gave {quoted(found)}; give an Observation, whose told, key, view "
                "and ask are texts"
            )
        return found

    @property
    def returns(self) -> tuple[float, ...]:
        """Payoffs so far of all seats."""
        return payoffs(self._game, self._play.returns)

    def action(self, found: Any) -> str | None:
        """Return what the environment has read in a reply."""
        if not (found is None or isinstance(found, str)):
            raise self._wrong(f"read() gave {quoted(found)}; give the action as a text, or None")
        return found

    def _wrong(self, what: str) -> GameError:
        return GameError(f"{self._game.name}: {what}.")


def checked(game: Environment, play: Play) -> Any:
    """Return what is asked in place of a play: the play itself if it is one of OpenSpiel's."""
    return Checked(game, play) if no_rules(game) else play


def payoffs(game: Environment, given: Any) -> tuple[float, ...]:
    """Return the payoffs of all seats.

    Raises:
        GameError: they are not one finite number per seat.
    """
    try:
        found = tuple(given)
        good = len(found) == game.num_seats and all(map(math.isfinite, found))
    except TypeError:
        good = False
    if not good:
        raise GameError(
            f"{game.name}: returns must be one finite number per seat, got {quoted(given)}."
        )
    return found


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
        self.play: Play = spec.game.reset(spec.deal)
        self._closed = False
        try:
            self._begin(agents, candidates)
        except BaseException:
            self.close()
            raise

    def _begin(self, agents: Mapping[str, Agent], candidates: Candidates | None) -> None:
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
        game, play = self.spec.game, copy_play(self.spec.game, self.play)
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
        self, scores: Sequence[float | None] = (), *, instead: Sequence[str | None] | None = None
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
                for other in draft.others:
                    other.conversation, other.segments = ledger.aside(other.reply)
                draft.conversation, draft.segments = ledger.conversation, ledger.record(draft.reply)
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
            game = self.spec.game
            found = [game.illegal.forfeit_returns(game, self.play, one.seat) for one in offenders]
            means = tuple(sum(own) / len(found) for own in zip(*found, strict=True))
            self._final = (means if len(found) > 1 else tuple(found[0]), offenders[0].seat)
            self._stop()
        elif not self._again:
            self._taken += len(self._said)
            self.play.step(self._said)
            self._said, self._tries = {}, {}
            self.done = self.play.done or self._taken >= self._limit

    def _chosen(self, draft: Draft, scores: Iterator[float | None]) -> Draft:
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

    def _read(self, draft: Draft, reply: Reply) -> None:
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
        """Apply the environment's rule for replies that are no legal action. Return whether the
        seat forfeits."""
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


def take_over(episode: EpisodeInPlay, prefix: Sequence[Turn]) -> None:
    """Play the turns of another play of this deal again, as they were.

    Replies to the same prompts that were not played are left behind.

    Raises:
        GameError: the turns are of another play, or end between those of one moment.
    """
    spec, place = episode.spec, 0
    anew = episode.play if spec.redealt and isinstance(episode.play, Redealable) else None
    if anew is not None and not prefix:
        anew.redeal(spec.stream.child("chance"))
    while place < len(prefix):
        asked = [] if episode.done else episode.ask()
        turns = prefix[place : place + len(asked)]
        place += len(asked)
        if not asked or [turn.seat for turn in turns] != [one.seat for one in episode.asked]:
            raise GameError(
                f"{spec.game.name}: the turns taken over end between those of one moment, "
                "or are of another play; take whole moments."
            )
        if anew is not None and place == len(prefix):
            anew.redeal(spec.stream.child("chance"))
        for draft, turn in zip(episode.asked, turns, strict=True):
            draft.verdict, draft.candidate, draft.score = turn.verdict, turn.candidate, turn.score
        episode.answer([said(turn) for turn in turns], instead=[turn.action for turn in turns])
