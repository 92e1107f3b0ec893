"""A turn that is being played: it becomes a record when its rewards are known."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from sparring.core.errors import GameError
from sparring.core.records import (
    Episode,
    Observation,
    SampledRun,
    Segment,
    Turn,
    TurnEvent,
    Verdict,
)
from sparring.environments.spec import spec_of
from sparring.play.players.base import Reply

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
