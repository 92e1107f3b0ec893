"""Whether a context strategy fits the environments of a run, tried before the run begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import ContextError, GameError, quoted
from sparring.core.rng import Stream
from sparring.environments.base import Environment
from sparring.models.render.base import HasWords
from sparring.play.context.base import no_notes
from sparring.play.episode import Draft, EpisodeInPlay
from sparring.play.players.demonstrator import demonstrator
from sparring.play.spec import EpisodeSpec

DEFAULT = "full"  # shows what any environment tells, so nothing is tried
MOMENTS = 50  # of the play that is tried


def check_context(context: BoundPlugin, environments: Sequence[Environment], renderer: Any) -> None:
    """Check that a strategy can show what it wants to, by a random play of each environment.

    Args:
        context: the strategy.
        environments: those of a run.
        renderer: what lays the conversations out.

    Raises:
        ContextError: an environment lacks what the strategy NEEDS, or what is shown has words that
            a closed vocabulary lacks.
        PluginError: the strategy raised, or breaks the ledger.
    """
    if context.plugin.name == DEFAULT:
        return
    for environment in environments:
        if "notes" in context.needs and not environment.notes:
            raise no_notes(context, environment)
        for draft in _drafts(context, environment, renderer):
            _check_words(draft, context, environment, renderer)


def _drafts(context: BoundPlugin, environment: Environment, renderer: Any) -> list[Draft]:
    """Return the turns of a random play, which ends where nothing random can be said."""
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
    found: list[Draft] = []
    episode = None
    try:
        episode = EpisodeInPlay(spec, {agent.name: agent})
        for _ in range(MOMENTS):
            if episode.done:
                break
            turns = episode.ask()
            found += episode.asked
            episode.answer(agent.act(turns))
    except GameError:  # the play is at fault, which is counted where it is played
        pass
    finally:
        if episode is not None:
            episode.close()
    return found


def _check_words(
    draft: Draft, context: BoundPlugin, environment: Environment, renderer: Any
) -> None:
    """Raise ContextError if a renderer with a closed vocabulary does not know a word."""
    known = renderer.words if isinstance(renderer, HasWords) else None
    told = {*draft.observation.text.split(), *(known or draft.told.split())}
    strange = [word for word in draft.told.split() if word not in told]
    if strange:
        raise ContextError(
            f"The {context} shows {quoted(draft.told)} in {environment.name}, and the tiny model's "
            f"vocabulary has no word {quoted(strange[0])}. Write context: {{name: full}}, or take "
            "a pretrained model and options: {style: full} (see docs/context.md)."
        )
