"""Sparring's environments as environments of PettingZoo: ``aec_env`` and ``parallel_env``.

Seat 0 is the agent ``player_0``. Spaces, observations and infos are those of ``gymnasium.py``; a
seat that is not due has a mask of zeros. The rewards of a step are the changes of all payoffs. The
environment's rule decides about illegal actions: by default the seat forfeits and the episode ends;
with ``illegal={"rule": "retry"}`` the seat is due again.

Only this module imports PettingZoo; tested with 1.27.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparring.core.errors import GameError, quoted
from sparring.environments.base import Environment
from sparring.environments.bridges.base import import_library
from sparring.interop.external_episode import EpisodeSource, ExternalEpisode
from sparring.interop.gymnasium import NUM_BYTES, Coding

pettingzoo: Any = import_library("pettingzoo", "pettingzoo", "1.27.0")


class AllSeats:
    """The part that both interfaces share; their classes have the same arguments.

    Args:
        environment: a name from `sparring list environments`, or an environment.
        actions: all actions, in the order of their indices; "any": any text is an action. None: the
            environment's own list, or the actions that random plays meet.
        num_bytes: length of the text in an observation.
        options: options of the environment; ``illegal`` is its rule for illegal replies.

    Attributes:
        actions: all actions; None: any text is an action.
        source: the episodes; ``source.episode.record`` is the record of the latest one.

    Raises:
        UnknownNameError: there is no such environment or option.
        ConfigError: an argument is wrong, or the list of actions is not known.
    """

    render_mode = None

    def __init__(
        self,
        environment: str | Environment,
        *,
        actions: Sequence[str] | None = None,
        num_bytes: int = NUM_BYTES,
        **options: Any,
    ) -> None:
        self.source = EpisodeSource(environment, options)
        self._coding = Coding(self.source, actions, num_bytes)
        self.actions = self._coding.actions
        rules = self.source.environment
        self.metadata = {"name": f"sparring_{rules.name}", "render_modes": []}
        self.possible_agents = [f"player_{seat}" for seat in range(rules.num_seats)]
        self.agents: list[str] = []
        self.terminations: dict[str, bool] = {}
        self.truncations: dict[str, bool] = {}
        self.action_spaces: dict[str, Any] = {}
        self.observation_spaces: dict[str, Any] = {}
        for agent in self.possible_agents:
            self.action_spaces[agent], self.observation_spaces[agent] = self._coding.spaces()

    def action_space(self, agent: str) -> Any:
        """Return the action space of an agent."""
        return self.action_spaces[agent]

    def observation_space(self, agent: str) -> Any:
        """Return the observation space of an agent."""
        return self.observation_spaces[agent]

    def close(self) -> None:
        """Release the resources of the episode."""
        self.source.close()

    def _read(self, episode: ExternalEpisode) -> None:
        """Read the observations, rewards, ends and infos of all agents."""
        agents = self.agents = [*self.possible_agents]
        pairs = [self._coding.observe(episode, seat) for seat in range(len(agents))]
        self.observations = {agent: pair[0] for agent, pair in zip(agents, pairs, strict=True)}
        self.infos = {agent: pair[1] for agent, pair in zip(agents, pairs, strict=True)}
        self.rewards = dict(zip(agents, episode.rewards, strict=True))
        self.terminations = dict.fromkeys(agents, episode.has_ended)
        self.truncations = dict.fromkeys(agents, episode.is_truncated)


class AecEnv(AllSeats, pettingzoo.AECEnv):  # type: ignore[misc]
    """An environment of Sparring in PettingZoo's AEC interface.

    Seats that are due at once are asked in their order, and see no reply of one another before all
    have acted.
    """

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        """Begin the next episode; ``EpisodeSource.begin`` describes the seed."""
        self._read_and_select(self.source.begin(seed))
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)

    def _read_and_select(self, episode: ExternalEpisode) -> None:
        self._read(episode)
        self.agent_selection = self.possible_agents[next(iter(episode.waiting), 0)]

    def observe(self, agent: str) -> dict[str, Any]:
        """Return the observation of an agent; see ``Coding.observe``."""
        observation: dict[str, Any] = self.observations[agent]
        return observation

    def step(self, action: Any) -> None:
        """Act for ``agent_selection``; after the end, each agent needs a step with None.

        Raises:
            GameError: the action is not in the action space, or the episode is over.
        """
        agent = self.agent_selection if self.agents else self.possible_agents[0]
        if self.terminations.get(agent) or self.truncations.get(agent):
            self._was_dead_step(action)
            return
        episode = self._coding.reply(self.possible_agents.index(agent), action)
        self._cumulative_rewards[agent] = 0.0
        self._read_and_select(episode)
        self._accumulate_rewards()


class ParallelEnv(AllSeats, pettingzoo.ParallelEnv):  # type: ignore[misc]
    """An environment of Sparring in PettingZoo's parallel interface.

    A step reads the actions of the agents that are due. Other agents can be left out, or give any
    action.
    """

    def reset(
        self, seed: int | None = None, options: Any = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin the next episode, and return observations and infos by agent.

        Args:
            seed: see ``EpisodeSource.begin``.
            options: not used.
        """
        self._read(self.source.begin(seed))
        return self.observations, self.infos

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        """Act for all agents that are due.

        Returns:
            Observations, rewards, terminations, truncations and infos, by agent.

        Raises:
            GameError: an action is missing or not in the action space, or the episode is over.
        """
        due = [self.possible_agents[seat] for seat in self.source.episode.waiting]
        missing = [agent for agent in due if agent not in actions]
        if missing:
            raise GameError(
                f"{self.metadata['name']}: the actions {quoted(dict(actions))} have none for "
                f"{', '.join(missing)}; write one for each agent that is due: {', '.join(due)}."
            )
        for agent in due or self.possible_agents[:1]:  # without due agents, an error says why
            self._coding.reply(self.possible_agents.index(agent), actions.get(agent))
        episode = self.source.episode
        self._read(episode)
        self.agents = self.agents if episode.record is None else []
        return self.observations, self.rewards, self.terminations, self.truncations, self.infos


aec_env, parallel_env = AecEnv, ParallelEnv
