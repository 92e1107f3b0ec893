"""The verbs, each imported when it is called.

`sparring --help` waits for no library of models or games.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from sparring.cli.failing import translated
from sparring.errors import ConfigError
from sparring.guard import Watch

VERBS = {  # verb -> its line in the help
    "train": "Train a language model by play.",
    "evaluate": "Measure a policy by exploitability, matches, regret, a league table or a suite.",
    "play": "Play against a policy or a bot in the terminal: ? shows the rules, Ctrl-D leaves.",
    "show": (
        "Show a stored episode: what each seat was told and said, legal actions, tokens, credit."
    ),
    "list": "List environments, methods, recipes or suites.",
    "explain": (
        "Explain a method, game, recipe or metric: what it does, its options and their defaults."
    ),
    "export": "Write a run's policy as a folder that AutoModelForCausalLM.from_pretrained loads.",
    "report": "Write report.html: a run on one page, fit to be attached to a paper.",
    "view": "Look at runs in a browser: curves, replays, league and workers, live.",
    "new": "Write a small package with a plug-in of your own, its test and a recipe.",
    "doctor": "Check this machine: versions, threads, and a two-second round of training.",
    "replay-unit": "Play a unit of a run's step again in this process, where errors show.",
    "reproduce": "Run a page's experiments anew on all cores: results, tables and verdicts.",
    "credit": "Measure advantage estimators against exact policy gradients.",
}
FUNCTIONS = {
    "list": "listing",
    "replay-unit": "replay_unit",
}  # verb -> the module and function of another name
GROUPS = {"credit"}  # verbs with verbs of their own: the module has a typer app
LEARN_TIME = "to learn how long a run takes, write: sparring train RECIPE steps=3"
REMOVED = {  # verb, or verb and word, of an earlier version -> what to write instead
    "scale": f"for a run's memory, write: sparring train RECIPE --dry-run; {LEARN_TIME}.",
    "credit race": "in a clone of the repository, write: sparring reproduce credit-race.",
    "train --assume": f"{LEARN_TIME}.",
    "train --times": f"{LEARN_TIME}.",
}


class Verbs(TyperGroup):
    """The verbs.

    What the disk, the network or the memory refuses is an error of the run, in each of them.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands.update({verb: TyperCommand(verb, help=line) for verb, line in VERBS.items()})

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the verb that is called, imported now, and what is left of the command line."""
        refuse_removed(args)
        name, command, rest = super().resolve_command(ctx, args)
        command = command if name is None else command_of(name)
        if name == "train":
            import_module("sparring.cli.train").refuse_dashes(rest)
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        """Run a verb, under a watch of the plug-ins it calls; for errors see ``translated``."""
        with translated(), Watch():
            return super().invoke(ctx)


def refuse_removed(words: Sequence[str]) -> None:
    """Refuse a verb or option of an earlier version.

    Raises:
        ConfigError: there is one; the message has what to write instead.
    """
    verb, *rest = words or [""]
    further = (f"{verb} {word.partition('=')[0]}" for word in rest)
    for name in (verb, *further):
        if name in REMOVED:
            raise ConfigError(f"`sparring {name}` was removed in version 0.3; {REMOVED[name]}")


def command_of(verb: str) -> Any:
    """Return the command of a verb."""
    name = FUNCTIONS.get(verb, verb)
    module = import_module(f"sparring.cli.{name}")
    if verb in GROUPS:
        return get_command(module.app)
    function: Callable[..., None] = getattr(module, name)
    single = typer.Typer(add_completion=False)
    single.command(verb)(function)
    return get_command(single)
