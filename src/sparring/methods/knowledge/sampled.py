"""Monte-Carlo counterfactual regret minimisation of an abstracted game that is too large to walk.

In step t each seat in turn is the one that learns. A play is drawn, all others by their strategies
of now. At each decision of the seat all its actions are tried: the others reply as they do, and
the play goes on by the strategies of now, with all actions of the seat's next ``depth`` - 1
decisions and one drawn after these. With u(a) what action a came to,

    R(I, a) <- R(I, a) + t (u(a) - sum over b of sigma(I, b) u(b))
    sigma(I, a) = max(R(I, a), 0) / sum over b of max(R(I, b), 0),   uniform where none is above 0

Then the play goes on with an action of (1 - EXPLORE) sigma + EXPLORE uniform. The answer is the
mean over the others' visits of sigma, weighted by t (external sampling: Lanctot et al., 2009;
linear weights: Brown and Sandholm, 2019).

With an anchor lambda above 0 regrets are not matched. A seat pays for each nat by which it leaves
what the policy does in a state, q. With T(I) the sum of t over the visits of I,

    sigma(I, a) in proportion to q(a) exp(R(I, a) / (lambda T(I)))

which maximises the mean worth of the actions so far less lambda KL(sigma || q). Where that comes to
rest, each seat so answers the others: a logit equilibrium with q for its base (McKelvey and
Palfrey, 1995; of a search that is anchored at what people do: Jacob et al., 2022).

Searching so few decisions deep does not bias u(a): what lies below is played by the strategies of
now, and not of a step before. A state that the seat itself hardly comes to is learnt slowly, as
regrets are not divided by its own probability to come there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from sparring.core.errors import GameError
from sparring.core.records import FloatArray
from sparring.core.rng import Stream
from sparring.environments.abstracted import Abstracted, AbstractedPlay, kind_of
from sparring.environments.foreign import environment_call
from sparring.methods.knowledge.standing import Habits
from sparring.methods.knowledge.statements import Place, place_of
from sparring.ops.normal_form import shares_above_zero, softmax

EXPLORE = 0.4
NONE = Habits()


@dataclass(kw_only=True, slots=True)
class _Row:
    """What is known of a state."""

    called: tuple[str, ...]
    regrets: FloatArray
    sums: FloatArray
    habit: FloatArray  # log q
    judged: bool  # whether its strategy is wanted
    weight: float = 0.0  # of the regrets: T
    now: _Mixed | None = None  # the strategy of now, once it is asked for

    def strategy(self, anchor: float) -> _Mixed:
        """Return the strategy of now."""
        if self.now is None:
            shares = (
                softmax(self.habit + self.regrets / (max(self.weight, 1.0) * anchor))
                if anchor
                else shares_above_zero(self.regrets)
            )
            self.now = _mixed(shares)
        return self.now

    def regret(self, step: int, worth: FloatArray, chances: FloatArray) -> None:
        """Add the regrets of a step."""
        self.regrets += step * (worth - chances @ worth)
        self.weight += step
        self.now = None


class _Mixed(NamedTuple):
    """A distribution over the labels of a state, and its running sums."""

    chances: FloatArray
    sums: list[float]


def _mixed(chances: FloatArray) -> _Mixed:
    """Return a distribution that can be drawn from."""
    return _Mixed(chances, list(accumulate(chances.tolist())))


class _Stand(NamedTuple):
    """A decision, what is known of its state, and the strategy of now."""

    place: Place
    row: _Row
    mixed: _Mixed

    def drawn(self, mixed: _Mixed, draw: np.random.Generator) -> str:
        """Return an action, drawn by these probabilities of its label."""
        at = bisect_right(mixed.sums, draw.random())
        return self.alike(self.row.called[min(at, len(self.row.called) - 1)], draw)

    def alike(self, label: str, draw: np.random.Generator) -> str:
        """Return one of the actions of a label, each alike."""
        pairs = zip(self.place.legal, self.place.labels, strict=True)
        own = [action for action, one in pairs if one == label]
        return own[int(draw.integers(len(own)))] if len(own) > 1 else own[0]


class Sampled:
    """Strategies of an abstracted game by sampled plays.

    Args:
        few: the abstracted game; it need not be possible to list its openings.
        stream: of all that is drawn.
        depth: decisions of the seat that learns of which all actions are tried, at least 1.
        actions: whether states in which something else than a statement is due are in the answer.
        gists: see ``places.place_of``.
        habits: what the policy does.
        anchor: what a nat costs by which a strategy leaves these; 0: nothing, and regrets are
            matched.
    """

    def __init__(
        self,
        few: Abstracted,
        stream: Stream,
        *,
        depth: int,
        actions: bool,
        gists: bool,
        habits: Habits = NONE,
        anchor: float = 0.0,
    ) -> None:
        self.few, self.stream, self.depth, self.actions = few, stream, depth, actions
        self.gists, self.habits, self.anchor = gists, habits, anchor
        self.rows: dict[str, _Row] = {}

    def solved(self, steps: int) -> dict[str, list[float]]:
        """Return after so many steps the mean strategy of each state that others came to.

        A state has its probabilities in the order of ``Place.called``.
        """
        with environment_call(self.few.inner) as asking:
            for step in range(1, steps + 1):
                for seat in range(self.few.num_seats):
                    asking.now = f"sampled play {step} of seat {seat}"
                    self._learn(seat, step)
        return {
            key: [float(share) for share in row.sums / row.sums.sum()]
            for key, row in self.rows.items()
            if row.judged and row.sums.any()
        }

    def _learn(self, seat: int, step: int) -> None:
        """Draw a play and add the regrets of one seat."""
        stream = self.stream.child(step).child(seat)
        draw = stream.child("draws").generator()
        play = AbstractedPlay(self.few, self.few.inner.reset(stream.child("play")))
        while not play.done:
            due = play.due()
            said = {one: self._said(play, one, draw, step) for one in due if one != seat}
            if seat in due:
                said[seat] = self._tried(play, seat, said, draw, step)
            play.step(said)

    def _stand(self, play: AbstractedPlay, seat: int) -> _Stand:
        """Return where a seat that is due stands, with its strategy of now."""
        place = place_of(play, seat, gists=self.gists)
        row = self._row(place, play, seat)
        return _Stand(place, row, row.strategy(self.anchor))

    def _said(
        self, play: AbstractedPlay, seat: int, draw: np.random.Generator, weight: float = 0.0
    ) -> str:
        """Return an action by a seat's strategy of now, which is added to its mean."""
        stand = self._stand(play, seat)
        if weight:
            stand.row.sums += weight * stand.mixed.chances
        return stand.drawn(stand.mixed, draw)

    def _tried(
        self,
        play: AbstractedPlay,
        seat: int,
        said: Mapping[int, str],
        draw: np.random.Generator,
        step: int,
    ) -> str:
        """Try all actions of the seat that learns, add its regrets, and return one to go on by."""
        stand = self._stand(play, seat)
        worth = self._worths(play, seat, said, stand, draw, self.depth - 1)
        chances = stand.mixed.chances
        stand.row.regret(step, worth, chances)
        return stand.drawn(_mixed((1 - EXPLORE) * chances + EXPLORE / len(chances)), draw)

    def _worths(
        self,
        play: AbstractedPlay,
        seat: int,
        said: Mapping[int, str],
        stand: _Stand,
        draw: np.random.Generator,
        depth: int,
    ) -> FloatArray:
        """Return what each action that is told apart comes to, [number of labels]."""
        found = np.zeros(len(stand.row.called))
        for number, label in enumerate(stand.row.called):
            after = play.clone()
            after.step({**said, seat: stand.alike(label, draw)})
            found[number] = self._worth(after, seat, draw, depth)
        return found

    def _worth(
        self, play: AbstractedPlay, seat: int, draw: np.random.Generator, depth: int
    ) -> float:
        """Play on to the end, trying all actions at so many decisions; return what is paid."""
        while not play.done:
            due = play.due()
            said = {one: self._said(play, one, draw) for one in due if one != seat or not depth}
            if seat in due and depth:
                stand = self._stand(play, seat)
                worth = self._worths(play, seat, said, stand, draw, depth - 1)
                return float(stand.mixed.chances @ worth)
            play.step(said)
        return float(play.returns[seat])

    def _row(self, place: Place, play: AbstractedPlay, seat: int) -> _Row:
        """Return what is known of a state.

        Raises:
            GameError: any text may be said there, and no cluster of it is known.
        """
        row = self.rows.get(place.key)
        if row is None:
            if not place.legal:
                raise GameError(
                    f"knowledge 'latent_space': {self.few.roles[seat]} may say any text in "
                    f"{self.few.name} where no statement of the kind was met, so that no play can "
                    "be sampled; take more plays a step, or an environment that lists its actions "
                    "(werewolf without deduce)."
                )
            called = place.called
            kind = kind_of(self.few.inner, play.inner, seat)
            row = self.rows[place.key] = _Row(
                called=called,
                regrets=np.zeros(len(called)),
                sums=np.zeros(len(called)),
                habit=np.log(self.habits.shares(kind, place.key, called)),
                judged=self.actions or kind in self.few.said,
            )
        return row
