"""A latent space of statements: clusters of each kind, and an equilibrium strategy over them."""

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
from sparring.methods.knowledge.statements import first_player_name, pattern
from sparring.ops.clusters import (
    k_means,
    mask_text,
    match_to_earlier,
    name_pattern,
    squared_distances,
)
from sparring.ops.game_tree import average_strategies

MAX_HISTORIES = 500_000  # largest number of histories of a game that is solved exactly
SUM_TOLERANCE = 1e-6

Strategy = Mapping[str, Sequence[float]]
"""Probabilities by information state: one per label of the state's actions, such as a cluster."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StatementClusters:
    """The clusters of one kind of action.

    Args:
        centres: vectors of the clusters' centres, [k, d].
        sentences: for each cluster, the ``statements.pattern`` nearest to its centre.
    """

    centres: FloatArray
    sentences: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LatentSpace:
    """Clusters by kind, and strategies of the abstracted games by environment.

    Args:
        embedding: turns statements into vectors.
        names: names of players or roles, masked before embedding.
        player_names: player names that placeholders replace in statements.
        kinds: clusters by name of the kind.
        strategies: strategies by name of the environment.
    """

    embedding: BoundPlugin
    names: tuple[str, ...]
    player_names: tuple[str, ...] = ()
    kinds: Mapping[str, StatementClusters] = field(default_factory=dict)
    strategies: Mapping[str, Strategy] = field(default_factory=dict)

    def embed_texts(self, statements: Sequence[str]) -> FloatArray:
        """Return statements as vectors, with "@" for names and "#" for numbers, [n, d]."""
        names = name_pattern(self.names)
        vectors: FloatArray = self.embedding([mask_text(text, names) for text in statements])
        return vectors

    def nearest_sentences(self, kind: str, statements: Sequence[str]) -> list[str | None]:
        """Return the sentence of the nearest cluster for each statement of a known kind.

        The sentence names the player that the statement names. A statement without a name belongs
        to the nearest cluster whose sentence has no name.

        Returns:
            The sentences; None for a statement without a name if every sentence has one.
        """
        if not statements:
            return []
        clusters = self.kinds[kind]
        patterns = [pattern(statement, self.player_names) for statement in statements]
        distances = squared_distances(self.embed_texts(patterns), clusters.centres)
        if not self.player_names:
            return [clusters.sentences[cluster] for cluster in distances.argmin(axis=1)]
        has_name = np.array([NAME in sentence for sentence in clusters.sentences])
        first_names = [first_player_name(statement, self.player_names) for statement in statements]
        distances[np.array([name is None for name in first_names])[:, None] & has_name] = np.inf
        sentences = [
            clusters.sentences[cluster] if np.isfinite(distances[row, cluster]) else None
            for row, cluster in enumerate(distances.argmin(axis=1))
        ]
        return [
            None if sentence is None else sentence.replace(NAME, name or "")
            for sentence, name in zip(sentences, first_names, strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the latent space as a JSON value."""
        kinds = {
            name: {"centres": clusters.centres.tolist(), "sentences": list(clusters.sentences)}
            for name, clusters in self.kinds.items()
        }
        return {
            "names": list(self.names),
            "called": list(self.player_names),
            "kinds": kinds,
            "strategies": self.strategies,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], embedding: BoundPlugin) -> tuple[int, Self]:
        """Return (iteration, latent space) of a saved state.

        Args:
            state: a JSON value with "iteration" and "space".
            embedding: the embedding that made the clusters.

        Raises:
            CheckpointError: the state cannot be read.
        """
        try:
            content = state["space"]
            space = cls(
                embedding=embedding,
                names=tuple(content["names"]),
                player_names=tuple(content.get("called", ())),
                kinds={
                    name: StatementClusters(
                        centres=np.array(clusters["centres"], dtype=np.float64),
                        sentences=tuple(clusters["sentences"]),
                    )
                    for name, clusters in content["kinds"].items()
                },
                strategies=content["strategies"],
            )
            _validate(space)
            return int(state["iteration"]), space
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(
                f"The latent space of the checkpoint cannot be read ({error!r}). Take an earlier "
                "checkpoint, or start anew with --overwrite."
            ) from error


def _validate(space: LatentSpace) -> None:
    for name, kind in space.kinds.items():
        if kind.centres.ndim != 2 or not 0 < len(kind.centres) == len(kind.sentences):
            raise ValueError(f"{name} does not have one sentence for each of its clusters")
    for strategy in space.strategies.values():
        for key, shares in strategy.items():
            if not shares or min(shares) < 0 or abs(sum(shares) - 1.0) > SUM_TOLERANCE:
                raise ValueError(f"the strategy of {key!r} is not a probability distribution")


def cluster_statements(
    statements: Mapping[str, int],
    k: int,
    earlier_clusters: StatementClusters | None,
    space: LatentSpace,
    stream: Stream,
) -> StatementClusters:
    """Return the clusters of a kind's statements.

    Args:
        statements: count of each statement.
        k: number of clusters.
        earlier_clusters: clusters of the previous iteration. Their sentences are added to the
            statements, with count 1. New clusters near earlier ones get the earlier numbers.
        space: the latent space, which embeds statements.
        stream: draws the initial centres.
    """
    counts = dict.fromkeys(earlier_clusters.sentences if earlier_clusters else (), 1)
    for line in sorted(statements):
        counts[line] = counts.get(line, 0) + statements[line]
    lines, weights = list(counts), np.array(list(counts.values()), dtype=np.float64)
    points = space.embed_texts(lines)
    centres = k_means(points, weights, k, stream).centres
    if earlier_clusters is not None:
        centres = centres[match_to_earlier(centres, earlier_clusters.centres)]
    distances = squared_distances(points, centres)
    cluster_of_line = distances.argmin(axis=1)
    sentences = []
    for cluster in range(len(centres)):
        members = np.flatnonzero(cluster_of_line == cluster)
        order = sorted(
            members, key=lambda row: (round(distances[row, cluster], 9), -weights[row], lines[row])
        )
        sentences.append(lines[order[0]])
    return StatementClusters(centres=centres, sentences=tuple(sentences))


def abstract_game(
    game: Environment, kinds: Mapping[str, StatementClusters]
) -> AbstractedEnvironment:
    """Return the abstracted game, in which only the clusters' sentences are legal statements."""
    return AbstractedEnvironment(
        game, {name: clusters.sentences for name, clusters in kinds.items()}
    )


def solve_exactly(
    game: Environment, kinds: Mapping[str, StatementClusters], steps: int, *, actions: bool = False
) -> dict[str, list[float]]:
    """Return the CFR strategy of the abstracted game, by enumeration of its whole tree.

    Args:
        game: the full environment.
        kinds: clusters by name of the kind.
        steps: CFR iterations.
        actions: whether to include states in which the due action is not a statement.

    Raises:
        GameError: the environment has no ``openings``, or a kind has no statement yet.
        TooLargeError: the abstracted game is too large; ``MonteCarloSolver`` can solve it.
    """
    if not isinstance(game, HasOpenings):
        raise GameError(
            f"knowledge 'latent_space': {game.name} has no method openings, so that its abstracted "
            "game cannot be solved; take an environment that has openings (see "
            "environments/history_tree.py), or write solver: sampled."
        )
    with environment_call(game):
        tree = walk(HistoryTree(abstract_game(game, kinds)), max_histories=MAX_HISTORIES)
    widths = np.array([len(legal) for legal in tree.legal], dtype=np.int64)
    policy = average_strategies(tree.tree, tree.seats, widths, steps)
    strategy: dict[str, list[float]] = {}
    for (_, key), node, probabilities in zip(tree.index_of, tree.examples, policy, strict=True):
        history: Any = node
        if actions or kind_of(game, history.play.inner, history.seat) in kinds:
            strategy[key] = [float(probability) for probability in probabilities]
    return strategy
