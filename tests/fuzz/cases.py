"""Random configurations for `configurations.py`: random keys, plug-ins and options, with valid and hostile values."""

import dataclasses
import random
import typing

import pydantic

from sparring.config import RunConfig, resolve
from sparring.config.plugins import registry
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.core.errors import SparringError

RECIPES = ("kuhn-tiny", "leduc-tiny", "tictactoe-tiny", "tictactoe-mirror", "demo", "mars/kuhn-tiny")
NUM_TRIES = 4  # attempts to find a change that is not refused, for a case that trains
TRAINED_SHARE = 0.3  # share of cases that train one step, if they are small and not refused
OPENSPIEL = (
    "kuhn_poker",
    "goofspiel",
    "matrix_rps",
    "pig",
    "blackjack",
    "tic_tac_toe",
    "nim",
    "coin_game",
    "go",
    "mfg_garnet",
    "chess",
)

NUMBERS = (
    0,
    1,
    2,
    3,
    5,
    8,
    16,
    100,
    -1,
    -3,
    0.5,
    0.9,
    1.5,
    1e-4,
    1e-12,
    1e12,
    1e300,
    -1e300,
    5e-324,
    -0.0,
    2**31 - 1,
    2**31,
    2**53,
    2**63,
)
NUMBERS += (-(2**63), 2**64, 10**18, 10**9, 10**6, 10**30)
TEXTS = (
    ".nan",
    ".inf",
    "-.inf",
    "1e-4",
    "1e5",
    "1E+3",
    "12e5",
    "1e400",
    "0x10",
    "0b11",
    "1_000",
    "1:30",
    "2001-01-01",
    "2001-99-99",
    "yes",
    "null",
    "~",
)
TEXTS += (
    "true",
    "''",
    '" "',
    "x",
    "abc def",
    "ünïcödé",
    "日本語",
    "🎲",
    '"\\0"',
    '"\\n"',
    '"\\x1b[31m"',
    '"\\ud800"',
    "a/b",
    "../x",
    "'{'",
    "[",
    "{",
    "!!int x",
)
TEXTS += (
    "!!python/name:os.system x",
    "&a [*a]",
    "*a",
    "- 1",
    "|\n x",
    "1" + "0" * 310,
    "9" * 5000,
    "x" * 3000,
    "%",
    "@",
    "`",
    "#",
    "?",
    "[]",
    "{}",
)
TEXTS += (
    "[1]",
    "[1, 2]",
    "[x]",
    "[[1]]",
    "[null]",
    "{a: 1}",
    "{1: 2}",
    "{name: x}",
    "{name: none}",
    "{name: random}",
    "{schedule: []}",
    "{[1]: 2}",
)
TEXTS += (
    "[" * 300,
    "{a: " * 60 + "1" + "}" * 60,
    "{<<: {a: 1}}",
    "'1'",
    "'1.5'",
    "+1",
    "-.5",
    ".5",
    "5.",
    "[.nan]",
    "{a: .inf}",
    "[-1, 2]",
)


@dataclasses.dataclass(frozen=True)
class Case:
    recipe: str
    overrides: tuple[str, ...]
    train: bool


def random_case(seed, number, quick):
    """Return case ``number``, which depends only on the seed, the number and the code.

    A case that trains takes only changes with which its configuration still resolves.
    """
    generator = random.Random(f"{seed} {number}")
    train, recipe, overrides = generator.random() < TRAINED_SHARE, generator.choice(RECIPES), tuple(quick)
    for _ in range(generator.choice((1, 1, 1, 2, 2, 3, 5))):
        candidates = [
            (*overrides, random_change(generator, hostile=not train or generator.random() < 0.2))
            for _ in range(NUM_TRIES if train else 1)
        ]
        overrides = next(
            (candidate for candidate in candidates if not train or is_resolved(recipe, candidate)), overrides
        )
    return Case(recipe=recipe, overrides=overrides, train=train)


def is_resolved(recipe, overrides):
    """Return whether a configuration resolves; an unexpected error counts as yes, so that the case shows it again."""
    try:
        resolve(apply_overrides(load_recipe(recipe), overrides))
    except SparringError:
        return False
    except Exception:
        return True
    return True


def random_change(generator, *, hostile):
    changes = (
        change_value,
        change_value,
        change_plug_in,
        change_plug_in,
        change_option,
        change_option,
        change_environment,
        change_illegal,
        change_weight,
        change_list,
        change_unknown_key,
    )
    make_change = generator.choice(changes if hostile else changes[:-1])
    return make_change(generator, hostile)


def change_value(generator, hostile):
    path, annotation = generator.choice(list(paths_and_annotations(RunConfig)))
    return f"{path}={random_value(generator, annotation, hostile)}"


def paths_and_annotations(section, prefix=""):
    for name, field in section.model_fields.items():
        sections = [
            argument
            for argument in typing.get_args(field.annotation)
            if isinstance(argument, type) and issubclass(argument, pydantic.BaseModel)
        ]
        subsection = sections[0] if sections else field.annotation
        yield f"{prefix}{name}", field.annotation
        if isinstance(subsection, type) and issubclass(subsection, pydantic.BaseModel):
            is_list = typing.get_origin(field.annotation) is list
            yield from paths_and_annotations(subsection, f"{prefix}{name}.{'0.' if is_list else ''}")


SLOT_OF_KEY = {
    "credit": "credit",
    "losses.0": "losses",
    "losses": "losses",
    "rewards": "rewards",
    "selection": "selection",
    "curriculum": "selection.curricula",
    "replay": "selection.replay",
    "matchmaker": "league.matchmakers",
    "league.keeping": "league.keeping",
    "rollout.plan": "rollout.plans",
    "renderer": "render",
    "context": "context",
    "sampler": "samplers",
    "environments.0.oracle": "oracles",
    "evaluation.opponents": "players",
    "bots.b": "players",
}


def change_plug_in(generator, hostile):
    key_path = generator.choice(list(SLOT_OF_KEY))
    slot = SLOT_OF_KEY[key_path] if not hostile or generator.random() < 0.9 else generator.choice(list(registry.SLOTS))
    name = generator.choice(registry.names(slot))
    plugin = registry.load(slot, name)
    parts = [f"name: {name}"]
    if plugin.presets and generator.random() < 0.3:
        parts.append(f"preset: {generator.choice(sorted(plugin.presets))}")
    options = dict(plugin.options)
    if hostile and generator.random() < 0.15:
        options = registry.load(slot, generator.choice(registry.names(slot))).options
    hints = typing.get_type_hints(plugin.function, include_extras=True)
    limits = oracle_limits(name) if slot == "oracles" else ""
    unlimited = sorted(key for key in options if f", {key}: " not in limits)
    for key in generator.sample(unlimited, min(len(unlimited), generator.choice((0, 0, 1, 2)))):
        parts.append(f"{key}: {random_value(generator, hints.get(key, str), hostile)}")
    is_list = key_path in ("losses", "rewards", "evaluation.opponents")
    text = "{" + ", ".join(parts) + limits + "}"
    return f"{key_path}={f'[{text}]' if is_list else text}"


def change_option(generator, hostile):
    key_path, name = generator.choice(
        (("credit", "mars"), ("losses.0", "ppo_clip"), ("credit", "gae"), ("matchmaker", "mixed"), ("credit", "grpo"))
    )
    plugin = registry.load(SLOT_OF_KEY[key_path], name)
    key = generator.choice(sorted(plugin.options) or ["x"])
    hint = typing.get_type_hints(plugin.function, include_extras=True).get(key, float)
    return f"{key_path}={{name: {name}, {key}: {random_value(generator, hint, hostile)}}}"


def oracle_limits(oracle_name):
    """Return options of an oracle, as text, with which it judges a position of any game in under a second."""
    if oracle_name == "noisy":  # its verdicts are those of minimax, with noise
        return ", options: {max_states: 2000}"
    limits = {"max_histories": 2000, "max_states": 2000, "simulations": 20}
    return "".join(
        f", {key}: {limit}" for key, limit in limits.items() if key in registry.load("oracles", oracle_name).options
    )


def change_environment(generator, hostile):
    name = generator.choice(OPENSPIEL if hostile and generator.random() < 0.2 else registry.names("environments"))
    parts = []
    if name in registry.names("environments"):
        plugin = registry.load("environments", name)
        hints = typing.get_type_hints(plugin.function, include_extras=True)
        for key in generator.sample(sorted(plugin.options), min(len(plugin.options), generator.choice((0, 0, 1, 2)))):
            parts.append(f"{key}: {random_value(generator, hints.get(key, int), hostile)}")
    oracle_name = generator.choice(registry.names("oracles"))
    oracle = f", oracle: {{name: {oracle_name}{oracle_limits(oracle_name)}}}" if generator.random() < 0.2 else ""
    return f"environments=[{{name: {name}, options: {{{', '.join(parts)}}}{oracle}}}]"


def change_illegal(generator, hostile):
    key = generator.choice(("rule", "penalty", "retries", "payoff"))
    valid = {"rule": ("forfeit", "retry", "random"), "payoff": ("zero_sum", "offender_only", "spiral", "mars")}
    text = (
        generator.choice(valid[key])
        if key in valid and not (hostile and generator.random() < 0.5)
        else random_value(generator, float, hostile)
    )
    return f"environments.0.illegal.{key}={text}"


def change_weight(generator, hostile):
    path = generator.choice(
        ("losses.0.weight", "learner.learning_rate", "outcome_weight", "rollout.max_turns", "process.learning_rate")
    )
    if not hostile:
        return f"{path}={random_value(generator, float, hostile)}"
    schedule = generator.choice(("linear", "cosine", "staircase", "constant", "[]", "x", "null", "1"))
    fields = generator.sample(
        ("start", "end", "until", "rise", "values", "at", "value", "x", "1"), generator.choice((0, 1, 2, 2, 3))
    )
    parts = [f"schedule: {schedule}", *(f"{field}: {random_value(generator, float, True)}" for field in fields)]
    return f"{path}={{{', '.join(parts)}}}"


def change_list(generator, hostile):
    key_path, slot = generator.choice(
        (
            ("losses", "losses"),
            ("rewards", "rewards"),
            ("evaluation.opponents", "players"),
            ("environments", "environments"),
        )
    )
    names = [generator.choice(registry.names(slot)) for _ in range(generator.choice((1, 2, 2, 3, 4)))]
    return f"{key_path}=[{', '.join(f'{{name: {name}}}' for name in names)}]"


def change_unknown_key(generator, hostile):
    start = generator.choice(
        (
            "",
            "games.",
            "environments.0.",
            "losses.9.",
            "seed.",
            "credit.",
            "learner.",
            "model.lora.",
            "health.rules.0.",
            "bots.",
            "1.",
            ".",
            "rollout.plan.",
        )
    )
    return f"{start}{generator.choice(('x', '', '0', '-1', 'náme', 'extends', 'preset', 'name', 'a.b.c', 'options.x.y', '__class__'))}={random_value(generator, str, True)}"


def random_value(generator, annotation, hostile):
    """Return YAML for a value of the annotated type; if hostile, often for an extreme value or another type."""
    if hostile and generator.random() < 0.6:
        return generator.choice(TEXTS) if generator.random() < 0.6 else str(generator.choice(NUMBERS))
    choices = literal_values(annotation)
    if choices and generator.random() < 0.8:
        return (
            str(generator.choice(choices)).lower() if isinstance(choices[0], bool) else str(generator.choice(choices))
        )
    types = types_of(annotation)
    if bool in types:
        return generator.choice(("true", "false"))
    if int in types and float not in types:
        return str(generator.choice((0, 1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 20, 64, 200, -1)))
    if str in types:
        return generator.choice(("x", "full", "brief", "none", "random", "policy", "a b"))
    return generator.choice(
        ("0", "0.1", "0.5", "0.9", "1", "1.5", "2", "3e-3", "10", "{schedule: linear, start: 0.5, end: 0.1}", "-0.5")
    )


def literal_values(annotation):
    if typing.get_origin(annotation) is typing.Literal:
        return list(typing.get_args(annotation))
    return (
        [item for argument in typing.get_args(annotation) for item in literal_values(argument)]
        if typing.get_args(annotation)
        else []
    )


def types_of(annotation):
    arguments = [
        argument for argument in typing.get_args(annotation) if isinstance(argument, type) or typing.get_args(argument)
    ]
    return (
        {type_ for argument in arguments for type_ in types_of(argument)}
        if arguments
        else {annotation}
        if isinstance(annotation, type)
        else set()
    )
