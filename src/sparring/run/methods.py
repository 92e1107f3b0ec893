"""The plug-ins of a run, bound to their options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sparring.config import RunConfig
from sparring.config.checks import stands_for_others
from sparring.config.league import LeagueConfig
from sparring.config.plugins.registry import Bound, bind
from sparring.engine.protocol import rewards_of
from sparring.environments.base import Environment
from sparring.league.seating import LeagueLearner
from sparring.methods.oracles.base import Oracle
from sparring.methods.oracles.judge import configured_oracles
from sparring.methods.rewards.components import WeightedReward
from sparring.play.players.mixture import Mixture


@dataclass(frozen=True, kw_only=True, slots=True)
class Methods:
    """The plug-ins of a run that the loop calls itself."""

    matchmaker: Bound
    curriculum: Bound
    selection: Bound
    credit: Mapping[str, Bound]  # by the name of the policy that it trains
    rewards: tuple[WeightedReward, ...] = ()
    replay: Bound | None = None
    knowledge: Bound | None = None  # what judges candidates after the plays
    plan: Bound = field(default_factory=lambda: bind("rollout.plans", "none"))
    keeping: Bound = field(default_factory=lambda: bind("league.keeping", "spread"))
    schedules: Mapping[str, Bound] = field(default_factory=dict)  # by the learner's policy
    learners: tuple[LeagueLearner, ...] = ()  # of a league in which several learn
    oracles: Mapping[str, Oracle] = field(default_factory=dict)  # by the game's name
    mixtures: Mapping[str, Mixture] = field(default_factory=dict)  # by the bot's name

    @classmethod
    def of(cls, config: RunConfig, games: Sequence[Environment] = ()) -> Methods:
        """Bind the plug-ins that a configuration names; oracles are made for the run's games."""
        return cls(
            matchmaker=config.matchmaker.bind("league.matchmakers"),
            curriculum=config.curriculum.bind("selection.curricula"),
            selection=config.selection.bind("selection"),
            credit={
                name: own.credit.bind("credit")
                for name, own in config.by_policy.items()
                if not config.is_frozen(name)
            },
            rewards=rewards_of(config),
            replay=config.replay.bind("selection.replay"),
            knowledge=config.knowledge.bind("knowledge") if config.knowledge else None,
            plan=config.rollout.plan.bind("rollout.plans"),
            keeping=config.league.keeping.bind("league.keeping"),
            schedules=schedules_of(config.league),
            learners=tuple(
                LeagueLearner(
                    policy=name,
                    matchmaker=(own.matchmaker or config.matchmaker).bind("league.matchmakers"),
                    share=own.share,
                )
                for name, own in config.league.learners.items()
            ),
            mixtures={
                name: given.bind("players")()
                for name, given in config.bots.items()
                if stands_for_others(given)
            },
            oracles=configured_oracles(config.environments, games) if games else {},
        )


def schedules_of(league: LeagueConfig) -> dict[str, Bound]:
    """Return the schedule of each learner of a league, by its policy."""
    return {
        name: (getattr(league.learners.get(name), "schedule", None) or league.schedule).bind(
            "league.schedules"
        )
        for name in league.tags
    }
