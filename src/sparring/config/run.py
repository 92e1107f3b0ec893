"""The strict configuration of a run: YAML recipes and ``a.b=c`` overrides.

The resolved configuration repeats a run. Every field has its one default here, or in the signature
of the plug-in that it configures. Unknown keys are errors that name the nearest right key.
``Number`` fields accept a schedule as well as a plain number (see ``core/schedule.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError, field_validator, model_validator

from sparring.config.checks import (
    check_bots,
    check_candidates,
    check_fresh,
    check_gpus,
    check_knowledge,
    check_league,
    check_losses,
    check_needs,
    check_playouts,
    check_sharding,
)
from sparring.config.parts import (
    config_error,
    refuse_repeated,
)
from sparring.config.policies import (
    check_learners,
    check_policies,
    completed,
)
from sparring.config.sections import FRESH, RunSections
from sparring.core.errors import ConfigError
from sparring.core.foreign_text import current_keys
from sparring.core.rng import Stream


class RunConfig(RunSections):
    """Everything that a run depends on, besides the code."""

    @field_validator("environments", "rewards", "losses", mode="before")
    @classmethod
    def _list_of_one(cls, value: Any) -> Any:
        return [value] if isinstance(value, str | Mapping) else value

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        return completed(data)

    @model_validator(mode="after")
    def _policies_fit(self) -> RunConfig:
        roles = {f"environments.{n}.roles": e.roles for n, e in enumerate(self.environments)}
        check_policies(self.policies, {"roles": self.roles, **roles}, self.learner.ranks)
        check_learners(self.policies, self.league.learners, {"roles": self.roles, **roles})
        return self

    @model_validator(mode="after")
    def _restarts_between_steps(self) -> RunConfig:
        if self.league.restarts and self.scale.lag:
            raise ValueError(
                f"scale.lag={self.scale.lag}: after a restart in the league, episodes of before it "
                "would be learnt from; write scale.lag: 0, or restart: false"
            )
        return self

    @model_validator(mode="after")
    def _order_fits(self) -> RunConfig:
        if self.scale.order == FRESH:
            check_fresh(self)
        return self

    @model_validator(mode="after")
    def _names_differ(self) -> RunConfig:
        refuse_repeated(
            "game",
            (game.known_as for game in self.environments),
            "metrics and baselines are kept by the game's name; give one of them a label",
        )
        if not any(game.weight for game in self.environments):
            raise ValueError(
                "every game has weight 0, which holds it out; give one of them weight 1"
            )
        if self.outcome_weight != 1.0 and not self.reorder_outcomes:
            raise ValueError(
                "outcome_weight other than 1 changes what an outcome is worth next to rewards; "
                "write reorder_outcomes: true"
            )
        refuse_repeated(
            "reward",
            (reward.name for reward in self.rewards),
            "a turn has one component of each name",
        )
        return self

    def check_plugins(self) -> RunConfig:
        """Bind every plug-in once, so that wrong names and options fail early."""
        slots = {
            "league.matchmakers": self.matchmaker,
            "league.keeping": self.league.keeping,
            "league.schedules": self.league.schedule,
            "selection": self.selection,
        }
        slots.update({"selection.curricula": self.curriculum, "selection.replay": self.replay})
        for slot, plugin in slots.items():
            plugin.bind(slot)
        check_league(self)
        for name, policy in self.by_policy.items():
            try:
                policy.renderer.bind("render")
                policy.context.bind("context")
                policy.credit.bind("credit")
                if not self.is_frozen(name):
                    check_losses(policy)
                    check_candidates(policy)
                    check_playouts(policy)
                    check_sharding(policy)
            except ConfigError as error:
                error.args = (f"policies.{name}: {error}" if self.policies else str(error),)
                raise
        # raises for a plan that does not fit
        self.rollout.plan.bind("rollout.plans")(self.rollout.group_size, (), Stream.from_seed(0))
        if self.knowledge is not None:
            self.knowledge.bind("knowledge")
            check_knowledge(self)
        for reward in self.rewards:
            check_needs(self, reward.bind("rewards").plugin)
        for game in self.environments:
            if game.oracle is not None:
                game.oracle.bind("oracles")
        for sink in self.logging.sinks:
            sink.bind("run.sinks")
        check_bots(self)
        check_gpus(self)
        return self


def resolve(data: Mapping[str, Any]) -> RunConfig:
    """Return the checked configuration of a plain mapping.

    Raises:
        ConfigError: a wrong type or value.
        UnknownNameError: an unknown key, plug-in or option, with the nearest right name.
    """
    try:
        return RunConfig.model_validate(current_keys(data, "The configuration")).check_plugins()
    except ValidationError as error:
        raise config_error(error, _keys_at) from None


def _keys_at(path: tuple[int | str, ...]) -> list[str]:
    """Return the field names of the section at ``path``."""
    section: Any = RunConfig
    for part in path:
        if isinstance(part, str) and part in getattr(section, "model_fields", {}):
            annotation = section.model_fields[part].annotation
            section = next(
                (a for a in getattr(annotation, "__args__", ()) if isinstance(a, type)), annotation
            )
    return list(getattr(section, "model_fields", {}))  # none if the path ends in a plain value
