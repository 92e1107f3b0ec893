"""A latent space of statements: clusters of each kind, and what an equilibrium plays of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import CheckpointError, GameError
from sparring.core.records import FloatArray
from sparring.core.rng import Stream
from sparring.environments.abstracted import NAME, AbstractedEnvironment, kind_of
from sparring.environments.base import Environment, HasOpenings
from sparring.environments.foreign import environment_call
from sparring.environments.history_tree import HistoryTree
from sparring.environments.tree_arrays import walk
from sparring.methods.knowledge.statements import about, pattern
from sparring.ops.clusters import finder, k_means, masked, matched, squared_distances
from sparring.ops.game_tree import average_strategies

HISTORIES = 500_000  # of an abstracted game at most
SLACK = 1e-6

Strategy = Mapping[str, Sequence[float]]
"""Information state -> probability of each cluster of the kind that is due there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """The clusters of one kind of action.

    Args:
        centres: [k, d].
        sentences: of each cluster the statement that stands for it: the one nearest its centre, a
            ``statements.pattern``.
    """

    centres: FloatArray
    sentences: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Space:
    """Clusters by kind, and the strategies of the abstracted games by the environment's name.

    Args:
        embedding: turns statements into vectors.
        names: words that stand for players, which it is not shown.
        called: names that are taken out of statements, which are then about any of these players.
        kinds: by name.
        strategies: by the environment's name.
    """

    embedding: BoundPlugin
    names: tuple[str, ...]
    called: tuple[str, ...] = ()
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    strategies: Mapping[str, Strategy] = field(default_factory=dict)

    def embedded(self, lines: Sequence[str]) -> FloatArray:
        """Return statements as vectors, with "@" for names and "#" for numbers, [n, d]."""
        names = finder(self.names)
        found: FloatArray = self.embedding([masked(line, names) for line in lines])
        return found

    def stand_ins(self, kind: str, said: Sequence[str]) -> list[str | None]:
        """Return for each statement of a kind that is known what stands for it.

        That is the sentence of the nearest cluster, about the player that the statement names. A
        statement that names nobody is of the nearest cluster whose sentence names nobody.

        Returns:
            None for a statement that names nobody where every sentence names somebody.
        """
        if not said:
            return []
        own, patterns = self.kinds[kind], [pattern(line, self.called) for line in said]
        apart = squared_distances(self.embedded(patterns), own.centres)
        if not self.called:
            return [own.sentences[number] for number in apart.argmin(axis=1)]
        named = np.array([NAME in sentence for sentence in own.sentences])
        whom = [about(line, self.called) for line in said]
        apart[np.array([name is None for name in whom])[:, None] & named] = np.inf
        nearest = [
            own.sentences[number] if np.isfinite(apart[row, number]) else None
            for row, number in enumerate(apart.argmin(axis=1))
        ]
        return [
            None if sentence is None else sentence.replace(NAME, name or "")
            for sentence, name in zip(nearest, whom, strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        kinds = {
            name: {"centres": one.centres.tolist(), "sentences": list(one.sentences)}
            for name, one in self.kinds.items()
        }
        return {
            "names": list(self.names),
            "called": list(self.called),
            "kinds": kinds,
            "strategies": self.strategies,
        }

    @classmethod
    def of_state(cls, state: Mapping[str, Any], embedding: BoundPlugin) -> tuple[int, Self]:
        """Return the iteration of a state, and its space as ``to_json`` gave it.

        Args:
            state: values of JSON: "iteration" and "space".
            embedding: by which its clusters were found.

        Raises:
            CheckpointError: it is none.
        """
        try:
            given = state["space"]
            space = cls(
                embedding=embedding,
                names=tuple(given["names"]),
                called=tuple(given.get("called", ())),
                kinds={
                    name: Kind(
                        centres=np.array(one["centres"], dtype=np.float64),
                        sentences=tuple(one["sentences"]),
                    )
                    for name, one in given["kinds"].items()
                },
                strategies=given["strategies"],
            )
            _check(space)
            return int(state["iteration"]), space
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(
                f"What the checkpoint says of the latent space cannot be read ({error!r}). Take "
                "an earlier one, or start anew with --overwrite."
            ) from error


def _check(space: Space) -> None:
    for name, kind in space.kinds.items():
        if kind.centres.ndim != 2 or not 0 < len(kind.centres) == len(kind.sentences):
            raise ValueError(f"{name} has not one sentence for each of its clusters")
    for strategy in space.strategies.values():
        for key, row in strategy.items():
            if not row or min(row) < 0 or abs(sum(row) - 1.0) > SLACK:
                raise ValueError(f"the strategy of {key!r} is none")


def clustered(
    said: Mapping[str, int], k: int, earlier: Kind | None, space: Space, stream: Stream
) -> Kind:
    """Return the clusters of a kind's statements.

    Args:
        said: how often each statement was said.
        k: clusters.
        earlier: what the kind was before. Its sentences count as said once more, so that nothing
            that was found is lost, and clusters that are like earlier ones keep their numbers.
        space: says how statements are embedded.
        stream: draws the starts.
    """
    counts = dict.fromkeys(earlier.sentences if earlier else (), 1)
    for line in sorted(said):
        counts[line] = counts.get(line, 0) + said[line]
    lines, weights = list(counts), np.array(list(counts.values()), dtype=np.float64)
    points = space.embedded(lines)
    centres = k_means(points, weights, k, stream).centres
    if earlier is not None:
        centres = centres[matched(centres, earlier.centres)]
    apart = squared_distances(points, centres)
    of = apart.argmin(axis=1)
    sentences = []
    for number in range(len(centres)):
        own = np.flatnonzero(of == number)
        order = sorted(
            own, key=lambda one: (round(apart[one, number], 9), -weights[one], lines[one])
        )
        sentences.append(lines[order[0]])
    return Kind(centres=centres, sentences=tuple(sentences))


def few(game: Environment, kinds: Mapping[str, Kind]) -> AbstractedEnvironment:
    """Return an environment in which only the clusters' sentences may be said."""
    return AbstractedEnvironment(game, {name: one.sentences for name, one in kinds.items()})


def solved(
    game: Environment, kinds: Mapping[str, Kind], steps: int, *, actions: bool = False
) -> dict[str, list[float]]:
    """Return the strategy of an environment in which only the clusters' sentences may be said.

    Its whole tree is walked; ``sampled.Sampled`` is for larger ones.

    Args:
        game: the full environment.
        kinds: of actions.
        steps: of CFR.
        actions: whether states in which something else than a statement is due are in it.

    Raises:
        GameError: it has no ``openings``, so that no tree of it is known, or a kind of statement
            that nobody has made yet.
        TooLargeError: the abstracted game is too large.
    """
    if not isinstance(game, HasOpenings):
        raise GameError(
            f"knowledge 'latent_space': {game.name} has no method openings, so that its abstracted "
            "game cannot be solved; take an environment that has one (see "
            "environments/history_tree.py), or write solver: sampled."
        )
    with environment_call(game):
        tree = walk(HistoryTree(few(game, kinds)), most=HISTORIES)
    widths = np.array([len(legal) for legal in tree.legal], dtype=np.int64)
    policy = average_strategies(tree.tree, tree.seats, widths, steps)
    found: dict[str, list[float]] = {}
    for (_, key), node, row in zip(tree.number, tree.examples, policy, strict=True):
        played: Any = node
        if actions or kind_of(game, played.play.inner, played.seat) in kinds:
            found[key] = [float(share) for share in row]
    return found
