"""Parses agents from text such as ``mcts simulations=1000``, and gives them distinct labels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sparring.config.parts import parse_named
from sparring.config.plugins import registry
from sparring.config.plugins.plugin import ModuleDeclarations
from sparring.core.errors import ConfigError
from sparring.play.players.base import Agent


class AgentSpec(NamedTuple):
    """An agent as plain data: its plug-in's name and options."""

    name: str
    options: Mapping[str, Any]

    def make(self) -> Agent:
        """Return the agent.

        Raises:
            UnknownNameError: the agent or an option does not exist.
            ConfigError: an option's value is wrong.
        """
        agent: Agent = registry.bind("players", self.name, self.options)()
        return agent

    @property
    def style(self) -> str:
        """The style of prompts that the agent needs; "full" if the plug-in has no ``style_of``."""
        style_of = self._declarations.style_of
        return "full" if style_of is None else style_of(**self.options)

    @property
    def words(self) -> frozenset[str] | None:
        """The words that the agent can read; None: any words."""
        words_of = self._declarations.words_of
        return None if words_of is None else words_of(**self.options)

    @property
    def identity(self) -> Any:
        """Data besides the options on which the agent's play depends, from ``identity_of``."""
        identity_of = self._declarations.identity_of
        return None if identity_of is None else identity_of(**self.options)

    @property
    def _declarations(self) -> ModuleDeclarations:
        return registry.load("players", self.name).declarations


def parse_agent(text: str) -> AgentSpec:
    """Return the agent that a text describes: its name, then ``key=value`` pairs in YAML.

    A value with spaces is quoted as in a shell: ``endpoint model=m system="You play games."``.

    Raises:
        UnknownNameError: the agent or an option does not exist.
        ConfigError: the text cannot be read, or a value has the wrong type or is missing.
    """
    name, options = parse_named(text, "Agent", "mcts simulations=1000")
    registry.bind("players", name, options)
    return AgentSpec(name, options)


def labels(specs: Sequence[AgentSpec], *, what: str = "Agent") -> list[str]:
    """Return a distinct label for each agent.

    A label is the plug-in's name; if the plug-in occurs twice, the options that differ follow.

    Args:
        specs: agents, or other plug-ins by name and options.
        what: noun for a spec in messages.

    Raises:
        ConfigError: two agents have the same name and options.
    """
    texts = []
    for spec in specs:
        same_specs = [other for other in specs if other.name == spec.name]
        keys = sorted({key for other in same_specs for key in other.options})
        differing_keys = [
            key
            for key in keys
            if any(
                other.options.get(key, ...) != spec.options.get(key, ...) for other in same_specs
            )
        ]
        settings = [
            f"{key}={re.sub(r'[^A-Za-z0-9_.:-]+', '_', str(spec.options[key]))}"
            for key in differing_keys
            if key in spec.options
        ]
        texts.append(f"{spec.name}({','.join(settings)})" if settings else spec.name)
    repeated_labels = sorted({label for label in texts if texts.count(label) > 1})
    if repeated_labels:
        raise ConfigError(
            f"{what} {repeated_labels[0]!r} occurs twice; leave one out, or give it another option."
        )
    return texts
