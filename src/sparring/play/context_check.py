"""Checks that a context strategy fits the environments of a run, before the run begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import ContextError, GameError, quoted
from sparring.core.rng import Stream
from sparring.environments.base import Environment
from sparring.play.context.base import no_notes_error
from sparring.play.episode import Draft, EpisodeInPlay
from sparring.play.players.demonstrator import demonstrator
from sparring.play.spec import EpisodeSpec

DEFAULT = "full"  # fits any environment, so it is not checked
MAX_MOMENTS = 50  # largest number of moments of the random episode


@runtime_checkable
class HasWords(Protocol):
    """A renderer with a closed vocabulary: any other word becomes an unknown token."""

    @property
    def words(self) -> Mapping[str, int]:
        """The id of each word."""
        ...


def check_context(context: BoundPlugin, environments: Sequence[Environment], renderer: Any) -> None:
    """Check a strategy by a random episode of each environment.

    Args:
        context: the strategy.
        environments: the run's environments.
        renderer: the policy's renderer.

    Raises:
        ContextError: an environment lacks what the strategy NEEDS, or a prompt has words outside a
            closed vocabulary.
        PluginError: the strategy raised, or breaks the ledger.
    """
    if context.plugin.name == DEFAULT:
        return
    for environment in environments:
        if "notes" in context.needs and not environment.notes:
            raise no_notes_error(context, environment)
        for draft in _play_randomly(context, environment, renderer):
            _check_words(draft, context, environment, renderer)


def _play_randomly(context: BoundPlugin, environment: Environment, renderer: Any) -> list[Draft]:
    agent, stream = demonstrator(renderer=renderer, context=context), Stream.from_seed(0)
    spec = EpisodeSpec(
        game=environment,
        episode_id=0,
        group_id=0,
        deal=stream.child("deal"),
        stream=stream.child("play"),
        seats=(agent.name,) * environment.num_seats,
        trained=(False,) * environment.num_seats,
    )
    drafts: list[Draft] = []
    episode = None
    try:
        episode = EpisodeInPlay(spec, {agent.name: agent})
        for _ in range(MAX_MOMENTS):
            if episode.done:
                break
            turns = episode.ask()
            drafts += episode.due_drafts
            episode.answer(agent.act(turns))
    except GameError:  # rollouts report faults of environments
        pass
    finally:
        if episode is not None:
            episode.close()
    return drafts


def _check_words(
    draft: Draft, context: BoundPlugin, environment: Environment, renderer: Any
) -> None:
    vocabulary = renderer.words if isinstance(renderer, HasWords) else None
    known_words = {*draft.observation.text.split(), *(vocabulary or draft.prompt.split())}
    unknown_words = [word for word in draft.prompt.split() if word not in known_words]
    if unknown_words:
        raise ContextError(
            f"The {context} shows {quoted(draft.prompt)} in {environment.name}, and the tiny "
            f"model's vocabulary has no word {quoted(unknown_words[0])}. Write context: "
            "{name: full}, or take a pretrained model and options: {style: full} (docs/context.md)."
        )
