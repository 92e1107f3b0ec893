"""Knowledge: a latent space of what can be said, and what an equilibrium would say (LSPO).

An abstracted game that is too large to walk is solved by Monte-Carlo counterfactual regret
minimisation. In step t each seat in turn is the one that learns. A play is drawn, all others by
their strategies of now. At each decision of the seat all its actions are tried: the others reply as
they do, and the play goes on by the strategies of now, with all actions of the seat's next
``depth`` - 1 decisions and one drawn after these. With u(a) what action a came to,

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
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from sparring.config.parts import PluginConfig
from sparring.core.errors import ConfigError, GameError
from sparring.core.records import FloatArray
from sparring.core.rng import Stream
from sparring.environments.abstracted import AbstractedEnvironment, AbstractedPlay, kind_of
from sparring.environments.base import Environment, HasPlayerNames
from sparring.environments.foreign import environment_call
from sparring.methods.knowledge.base import Gathered, Knowledge
from sparring.methods.knowledge.space import Kind, Space, clustered, few, solved
from sparring.methods.knowledge.standing import (
    Habits,
    Prefer,
    Standing,
    habits_of,
    placed_replies,
    scores_of,
    standings,
)
from sparring.methods.knowledge.statements import Decision, Place, decisions, pattern, place_of
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
        if self.now is None:
            shares = (
                softmax(self.habit + self.regrets / (max(self.weight, 1.0) * anchor))
                if anchor
                else shares_above_zero(self.regrets)
            )
            self.now = _mixed(shares)
        return self.now

    def regret(self, step: int, worth: FloatArray, chances: FloatArray) -> None:
        self.regrets += step * (worth - chances @ worth)
        self.weight += step
        self.now = None


class _Mixed(NamedTuple):
    """A distribution over the labels of a state, and its running sums."""

    chances: FloatArray
    sums: list[float]


def _mixed(chances: FloatArray) -> _Mixed:
    return _Mixed(chances, list(accumulate(chances.tolist())))


class _Stand(NamedTuple):
    """A decision, what is known of its state, and the strategy of now."""

    place: Place
    row: _Row
    mixed: _Mixed

    def drawn(self, mixed: _Mixed, draw: np.random.Generator) -> str:
        at = bisect_right(mixed.sums, draw.random())
        return self.alike(self.row.called[min(at, len(self.row.called) - 1)], draw)

    def alike(self, label: str, draw: np.random.Generator) -> str:
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
        few: AbstractedEnvironment,
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
        stream = self.stream.child(step).child(seat)
        draw = stream.child("draws").generator()
        play = AbstractedPlay(self.few, self.few.inner.reset(stream.child("play")))
        while not play.done:
            due = play.due()
            said = {one: self._said(play, one, draw, step) for one in due if one != seat}
            if seat in due:
                stand = self._stand(play, seat)
                worth = self._worths(play, seat, said, stand, draw, self.depth - 1)
                chances = stand.mixed.chances
                stand.row.regret(step, worth, chances)
                said[seat] = stand.drawn(
                    _mixed((1 - EXPLORE) * chances + EXPLORE / len(chances)), draw
                )
            play.step(said)

    def _stand(self, play: AbstractedPlay, seat: int) -> _Stand:
        """Return where a seat that is due stands, with its strategy of now."""
        place = place_of(play, seat, gists=self.gists)
        row = self._row(place, play, seat)
        return _Stand(place, row, row.strategy(self.anchor))

    def _said(
        self, play: AbstractedPlay, seat: int, draw: np.random.Generator, weight: float = 0.0
    ) -> str:
        stand = self._stand(play, seat)
        if weight:
            stand.row.sums += weight * stand.mixed.chances
        return stand.drawn(stand.mixed, draw)

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
                judged=self.actions or kind in self.few.statements,
            )
        return row


EMBEDDING = "embedding"  # the option that names an embedding
EMBEDDINGS = "knowledge.embeddings"
Solver = Literal["whole", "sampled"]


def latent_space(
    gathered: Gathered,
    state: Mapping[str, Any],
    *,
    clusters: Annotated[int, Field(ge=1, le=64)] = 3,
    growth: Annotated[int, Field(ge=0, le=16)] = 1,
    kinds: Mapping[str, int] | None = None,
    every: Annotated[int, Field(ge=1)] = 20,
    iterations: Annotated[int, Field(ge=1)] = 3,
    prefer: Prefer = "ratio",
    floor: Annotated[float, Field(gt=0, le=0.5)] = 0.01,
    actions: bool = False,
    solver: Solver = "whole",
    cfr_steps: Annotated[int, Field(ge=1, le=1_000_000)] = 1000,
    depth: Annotated[int, Field(ge=1, le=16)] = 1,
    gists: bool = True,
    anchor: Annotated[float, Field(ge=0)] = 0.0,
    embedding: str | dict[str, Any] = "ngrams",
) -> Knowledge:
    """Judge what is said by an equilibrium of a game in which little can be said.

    What: latent space policy optimisation. In iterations of ``every`` steps: the statements of the
    first step are clustered, by kind of action; the environment in which a seat may say one
    sentence per cluster alone is solved; and until the next iteration each reply is judged by how
    often the solution says what its cluster says. The next iteration has ``growth`` clusters more.
    When to use: games whose actions are texts, so many that no solver can list them, with
    ``rollout.candidates`` (``commit: random``), ``credit: candidate_value`` and the loss
    ``turn_dpo`` with preset ``lspo``.
    Mathematics: s is the information state in the abstracted game, c(a) the cluster of reply a of
    k, sigma the average strategy of CFR there, q the share of the step's replies in a cluster. The
    score of a reply is

        prefer "ratio":        log(sigma'(c(a) | s) / q(c(a) | s))
        prefer "probability":  sigma'(c(a) | s)

        sigma' = (1 - floor) sigma + floor / k
        q(c | s) = (n(s, c) + k q(c)) / (n(s) + k)

    with n(s, c) the replies of a cluster in s, and q(c) their share among all of the kind (without
    a kind, among all decisions with the same list of actions). A reply that is no action counts as
    a cluster of its own, with sigma' = floor / k.
    With "ratio", credit as it is and soft labels, the loss is least where every cluster has just
    the probability sigma', and statements within it the shares that they had.
    The sign: a reply is better the more the equilibrium plays its cluster. The paper's text prefers
    the lower regret; by its update R(a) <- R(a) + u(a) - u(strategy) the larger regret is what is
    played more. See docs/lspo.md.
    Pitfalls: "probability", the paper's order, is the same for all clusters of an equilibrium that
    mixes evenly, so that nothing is learnt there; and what it prefers becomes ever likelier.
    With the default embedding clusters are of letters and words: statements that mean the same in
    other words may be apart. Chance after the start, and trees of more than 500,000 histories,
    are refused by ``solver: whole``. By gists a strategy is that of a seat that forgets the rest,
    which who remembers can exploit.
    Shapes: a score per reply.
    Metrics: iteration (from 1), clusters (of all kinds), apart (mean over states of the sum over
    clusters of |sigma' - q| / 2: how far the policy is from the solution), even (share of judged
    prompts where the solution plays all alike: much of it says that too few plays were sampled).
    Reference: Xu et al., 2025, "Learning strategic language agents in the Werewolf game with
    iterative latent space policy optimization", arXiv:2502.04686, whose regrets are of Deep CFR.
    Verified by: tests/methods/knowledge/test_latent_space.py,
    tests/methods/knowledge/test_sampled.py, tests/run/test_candidates_in_runs.py.

    Args:
        clusters: of each kind in the first iteration, 1 to 64. Default 3.
        growth: clusters more in each further iteration, 0 to 16. Default 1.
        kinds: kind of action -> clusters in the first iteration, where it is not ``clusters``.
        every: steps of an iteration, at least 1. Default 20.
        iterations: how many; the last one stays. Default 3.
        prefer: "ratio" (default) or "probability": what makes a reply better, see above.
        floor: least share of all clusters together, above 0, at most 0.5: what the solution never
            says is not lost. Default 0.01.
        actions: whether decisions that are no statements are judged as well, each action as a
            cluster of its own. false (default), as the paper: they are not trained.
        solver: "whole" (default): the tree of the abstracted game is walked, and solved by CFR+.
            "sampled": plays are drawn, for games whose tree is too large or cannot be listed.
        cfr_steps: of the solver; with "sampled" plays drawn for each seat. Default 1000.
        depth: with "sampled", decisions of a seat in a row of which all actions are tried before
            the rest is drawn, 1 (default) to 16.
        gists: with "sampled", whether a seat goes by the little that its environment says that it
            does (``gist`` of a play, as werewolf's). true by default. false, and in other
            environments: by all that it knows.
        anchor: with "sampled", lambda above 0: a strategy pays lambda for each nat by which it
            leaves what the policy does in a state, in units of what a play pays. Games of talk have
            many equilibria, by whatever convention; so the one that is found keeps to the policy's
            words, and prefers little that the policy never says. Default 0: it pays nothing.
        embedding: what turns statements into vectors, a plug-in with its options: "ngrams"
            (default), {name: hidden_states, model: smollm2-135m} or {name: endpoint, model: NAME}.
            It is shown "@" for names and "#" for numbers.

    Raises:
        GameError: the abstracted game cannot be solved.
        ConfigError: ``kinds`` names no kind that is there, or too few clusters; or an anchor where
            no plays are sampled.
    """
    _check_kinds(kinds or {})
    if anchor and solver != "sampled":
        raise ConfigError(
            f"knowledge 'latent_space': anchor={anchor:g} anchors sampled plays alone, and "
            f"solver={solver} walks the tree; write solver: sampled, or leave anchor out."
        )
    solving = Solving(
        solver=solver, steps=cfr_steps, depth=depth, actions=actions, gists=gists, anchor=anchor
    )
    embed = PluginConfig.model_validate(embedding).bind(EMBEDDINGS)
    found = [
        decisions(gathered.environments[episode.game], episode, actions=actions)
        for episode in gathered.episodes
    ]
    iteration = min(gathered.step // every, iterations - 1)
    reached, known = Space.of_state(state, embed) if state else (-1, None)
    opens = known is None or reached < iteration
    if opens:
        counts = {
            kind: number + growth * iteration
            for kind, number in _wanted(found, clusters, kinds or {}).items()
        }
        names, called = _names(gathered)
        space = Space(embedding=embed, names=names, called=called)
        known = _made(gathered, found, known, space, counts)
    assert known is not None
    stood = standings(gathered, found, known, gists=solving.by_gists)
    if opens:
        known = _solved(gathered, stood, known, solving)
        state = {"iteration": iteration, "space": known.to_json()}
        reached, known = Space.of_state(state, embed)  # as a checkpoint has it
    said = placed_replies(stood, known)
    scores, figures = scores_of(said, known, prefer, floor)
    laid_out: list[dict[int, list[float | None]]] = [{} for _ in gathered.episodes]
    for one, own in zip(said, scores, strict=True):
        laid_out[one.episode][one.number] = own
    figures["iteration"] = reached + 1.0
    figures["clusters"] = float(sum(len(one.sentences) for one in known.kinds.values()))
    return Knowledge(scores=laid_out, state=dict(state), metrics=figures)


@dataclass(frozen=True, kw_only=True, slots=True)
class Solving:
    """How an abstracted game is solved; see the options of ``latent_space``."""

    solver: Solver
    steps: int
    depth: int
    actions: bool
    gists: bool
    anchor: float

    @property
    def by_gists(self) -> bool:
        """Whether seats go by the little that their plays say."""
        return self.gists and self.solver == "sampled"

    def strategy(
        self, game: Environment, kinds: Mapping[str, Kind], stream: Stream, habits: Habits
    ) -> dict[str, list[float]]:
        """Return the strategy of an environment in which the clusters' sentences alone are said."""
        if self.solver == "whole":
            return solved(game, kinds, self.steps, actions=self.actions)
        own = few(game, kinds)
        sampled = Sampled(
            own,
            stream,
            depth=self.depth,
            actions=self.actions,
            gists=self.by_gists,
            habits=habits,
            anchor=self.anchor,
        )
        return sampled.solved(self.steps)


def _check_kinds(kinds: Mapping[str, int]) -> None:
    """Raise ConfigError unless each kind has a cluster."""
    for kind, number in kinds.items():
        if number < 1:
            raise ConfigError(
                f"knowledge 'latent_space', option 'kinds': {kind}: {number} must be at least 1."
            )


def _wanted(
    found: Sequence[Sequence[Decision]], clusters: int, kinds: Mapping[str, int]
) -> dict[str, int]:
    met = sorted({one.kind for own in found for one in own if one.kind})
    unknown = sorted(set(kinds) - set(met))
    if unknown and met:
        raise ConfigError(
            f"knowledge 'latent_space', option 'kinds': nothing of the kind {unknown[0]!r} was "
            f"said; there are {', '.join(map(repr, met))}."
        )
    return {kind: kinds.get(kind, clusters) for kind in met}


def _names(gathered: Gathered) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of players that statements are not to be told apart by.

    Returns:
        Those that environments call them by, with the roles of other environments; and the first
        alone, which are taken out of statements.
    """
    called, names = set[str](), set[str]()
    for game in gathered.environments.values():
        own = game.called if isinstance(game, HasPlayerNames) else None
        called |= set(own or ())
        names |= set(game.roles if own is None else own)
    return tuple(sorted(names)), tuple(sorted(called))


def _made(
    gathered: Gathered,
    found: Sequence[Sequence[Decision]],
    earlier: Space | None,
    space: Space,
    counts: Mapping[str, int],
) -> Space:
    said: dict[str, Counter[str]] = {}
    for one in (one for own in found for one in own if one.kind):
        said.setdefault(one.kind, Counter()).update(
            pattern(line, space.called) for line in one.said if line is not None
        )
    stream = gathered.stream.child("clusters")
    before = earlier.kinds if earlier is not None else {}
    made = {
        kind: clustered(lines, counts[kind], before.get(kind), space, stream.child(kind))
        for kind, lines in sorted(said.items())
        if lines or kind in before
    }
    return replace(space, kinds={**before, **made})


def _solved(
    gathered: Gathered, stood: Sequence[Sequence[Standing]], space: Space, solving: Solving
) -> Space:
    stream, strategies = gathered.stream.child("solver"), {}
    for name in sorted({episode.game for episode in gathered.episodes}):
        habits = habits_of(one for own in stood for one in own if one.game == name)
        game = gathered.environments[name]
        strategies[name] = solving.strategy(game, space.kinds, stream.child(name), habits)
    return replace(space, strategies=strategies)
