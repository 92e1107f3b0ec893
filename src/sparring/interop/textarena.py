"""Sparring's environments as environments of TextArena, for its agents and trainers.

    from sparring.interop.textarena import register

    register("Kuhn-v0", "kuhn_poker")
    env = textarena.make("Kuhn-v0")

Only this module imports TextArena; tested with 0.7.4.
"""

from __future__ import annotations

from typing import Any

from sparring.core.errors import ConfigError, quoted
from sparring.environments.base import Environment
from sparring.environments.bridges.base import import_library
from sparring.interop.external_episode import EpisodeSource, ExternalEpisode

textarena: Any = import_library("textarena", "textarena", "0.7.4")
kinds: Any = textarena.ObservationType


def register(env_id: str, environment: str | Environment, **options: Any) -> None:
    """Register an environment of Sparring with TextArena.

    ``textarena.make(env_id)`` gives each player its whole conversation as a text. The id with
    "-train" at its end does the same, and "-raw" gives lists of new messages.

    Args:
        env_id: id in TextArena, such as "Kuhn-v0".
        environment: a name from `sparring list environments`, or an environment.
        options: options of the environment, such as style="full" for language models; ``illegal``
            is its rule for illegal replies.

    Raises:
        ConfigError: the id is registered already.
        UnknownNameError: there is no such environment or option.
    """
    registration = textarena.envs.registration
    if env_id in registration.ENV_REGISTRY:
        raise ConfigError(
            f"env_id={quoted(env_id)} is registered with TextArena already; write another id."
        )
    TextArenaEnv(environment, **options)
    whole_conversation = [textarena.wrappers.LLMObservationWrapper]
    registration.register_with_versions(
        env_id,
        TextArenaEnv,
        {"default": whole_conversation, "-train": whole_conversation},
        environment=environment,
        **options,
    )


class TextArenaEnv(textarena.Env):  # type: ignore[misc]
    """An environment of Sparring in TextArena's interface; every seat is a player of TextArena.

    Seats that are due at once are asked in their order, and see no reply of one another before all
    have replied. The environment parses replies. The rule ``illegal`` decides about illegal
    replies: by default the seat forfeits. ``close`` returns the payoffs, and ``game_info`` with the
    reason of the end.

    Args:
        environment: a name from `sparring list environments`, or an environment.
        options: options of the environment, such as style="full" for language models; ``illegal``
            is its rule for illegal replies.

    Attributes:
        state: TextArena's state: the current player, messages, rewards and ``game_info``.
        source: the episodes; ``source.episode.record`` is the record of the latest one.

    Raises:
        UnknownNameError: there is no such environment or option.
        ConfigError: an option is wrong.
    """

    def __init__(self, environment: str | Environment, **options: Any) -> None:
        self.source = EpisodeSource(environment, options)

    def reset(self, num_players: int, seed: int | None = None) -> None:
        """Begin the next episode.

        Args:
            num_players: number of seats of the environment.
            seed: see ``EpisodeSource.begin``.

        Raises:
            ConfigError: the environment has another number of seats.
        """
        rules = self.source.environment
        if num_players != rules.num_seats:
            raise ConfigError(
                f"num_players={quoted(num_players)}: {rules.name} has {rules.num_seats} seats; "
                f"write num_players={rules.num_seats}."
            )
        self.state = textarena.State(num_players=num_players)  # its seed would be process-wide
        self.state.standard_resets(
            role_mapping={seat: f"Player {seat}" for seat in range(num_players)},
            secret_roles=dict(enumerate(rules.roles)),
        )
        self._last_prompt = [0] * num_players  # number of the latest decision that was sent
        self._update(self.source.begin(seed))

    def step(self, action: str) -> tuple[bool, dict[str, Any]]:
        """Give the reply of the current player.

        Returns:
            Whether the episode is over, and TextArena's information about the step.

        Raises:
            GameError: the reply is not a text, or the episode is over.
        """
        seat = self.state.current_player_id if hasattr(self, "state") else 0
        episode = self.source.reply(seat, action)
        self.state.add_observation(action, kinds.PLAYER_ACTION, from_id=seat, to_id=seat)
        self.state.game_info[seat]["turn_count"] += 1
        self._update(episode)
        done, info = self.state.step()
        return bool(done), info

    def _update(self, episode: ExternalEpisode) -> None:
        """Send new prompts and results to the players, and update TextArena's state."""
        state, record = self.state, episode.record
        for seat, draft in episode.waiting.items():
            if draft.number > self._last_prompt[seat]:
                kind = kinds.GAME_MESSAGE if self._last_prompt[seat] else kinds.PROMPT
                state.add_observation(draft.prompt, kind, to_id=seat)
                self._last_prompt[seat] = draft.number
        state.current_player_id = next(iter(episode.waiting), state.current_player_id)
        if record is None:
            return
        if record.forfeited_by is not None:
            reason = f"Player {record.forfeited_by} lost by an illegal reply."
        else:
            reason = "The episode was truncated." if record.cut else "The episode ended."
        offenders = {turn.seat for turn in record.turns if turn.event in ("illegal", "unparsable")}
        for seat, text in enumerate(episode.results):
            state.add_observation(text or reason, kinds.GAME_MESSAGE, to_id=seat)
            result = {"invalid_move": seat in offenders, "reason": text or reason}
            state.game_info[seat] |= result
        state.done, state.rewards = True, dict(enumerate(episode.payoffs))
