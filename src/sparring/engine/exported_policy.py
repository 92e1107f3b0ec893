"""Export of a run's policy, or of a mixture of its members, as model folders.

A folder holds weights, tokenizer, sampling settings and a model card.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sparring.config import RunConfig
from sparring.config.checks import EMA, LIVE
from sparring.config.yaml_text import dump_yaml
from sparring.core.errors import ConfigError, UnknownNameError
from sparring.core.records import MAIN, PUBLISHED, PlayerRef
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine, Policy
from sparring.engine.plan import TINY
from sparring.environments.base import (
    Environment,
    random_replies,
    side_numbers,
    teams_of,
    temporary_play,
)
from sparring.environments.foreign import environment_call
from sparring.play.context.base import Ledger
from sparring.play.players.exported import (
    AnyExportedMixture,
    ExportedMixture,
    ExportedPolicy,
    ExportedSampling,
    ExportedSides,
    write_exported,
)
from sparring.play.players.mixture import MemberMixture

FILE_MODE = 0o644  # mode of every file, so that a server of another user can read it
CARD = "README.md"

TRANSFORMERS = """from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{folder}")
model = AutoModelForCausalLM.from_pretrained("{folder}")
prompt = {prompt}
ids = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")
said = model.generate(**ids)[0][ids["input_ids"].shape[1]:]
print(tokenizer.decode(said, skip_special_tokens=True))
"""
ADAPTER = """from peft import PeftModel
from transformers import AutoModelForCausalLM

model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained("{base}"), "{folder}")
"""


def export(
    engine: LocalEngine,
    folder: Path,
    *,
    step: int,
    dtype: str | None = None,
    adapter: bool = False,
    policy: str | None = None,
    member: PlayerRef = PUBLISHED,
    figures: Mapping[str, float] | None = None,
) -> None:
    """Write the weights of a policy.

    Args:
        engine: the run's engine.
        folder: the target folder; created if it is missing.
        step: step of the checkpoint, for the model card.
        dtype: number type of the weights: "float32", "bfloat16" or "float16"; None: as in training.
        adapter: whether to write only the adapters, not merged into the base model.
        policy: name of the policy; None: the only policy.
        member: the player whose weights are written: published policy, learner, or snapshot.
        figures: measurements of these weights by metric, for the model card.

    Raises:
        ConfigError: there are several policies and none is named.
        UnknownNameError: the policy, or its snapshot, does not exist.
        ModelError: only adapters are to be written, and the model has none.
        RunError: the folder cannot be written.
    """
    exported_policy = choose_policy(engine, policy)
    model = exported_policy.model_of(member)
    if model is None:
        raise UnknownNameError("snapshot of this run", str(member), map(str, engine.members))
    model.save(folder, dtype=dtype, adapter=adapter)
    if not adapter:
        _write_sampling(exported_policy, folder / "generation_config.json")
    is_live, is_ema = model is exported_policy.model, model is exported_policy.published
    weights = LIVE if is_live else EMA if is_ema else str(member)
    text = model_card(
        engine,
        exported_policy,
        folder.name,
        step=step,
        weights=weights,
        adapter=adapter,
        figures=figures or {},
    )
    (folder / CARD).write_text(text, encoding="utf-8")
    write_exported(folder, _policy_settings(engine, exported_policy, adapter=adapter))
    make_readable(folder)


def make_readable(folder: Path) -> None:
    """Give every file the mode ``FILE_MODE``."""
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(FILE_MODE)


def _policy_settings(engine: LocalEngine, policy: Policy, *, adapter: bool) -> ExportedPolicy:
    config, params = policy.config, policy.params
    is_tiny = config.model.name == TINY
    return ExportedPolicy(
        model=config.model.name,
        dtype=config.model.dtype,
        lora=config.model.lora if adapter else None,
        longest=None if is_tiny else config.model.context,
        renderer=config.renderer,
        context=config.context,
        sampling=ExportedSampling(
            max_new_tokens=params.max_new_tokens,
            temperature=params.temperature,
            top_p=params.top_p,
            top_k=params.top_k,
        ),
        in_flight=config.rollout.in_flight,
        style=str(engine.config.environments[0].options.get("style", "brief")),
    )


def seat_command(engine: LocalEngine, policy: Policy, folder: str) -> str:
    """Return the command that evaluates a policy that was exported into this folder."""
    game_of = {game.name: game for game, _ in engine.environments}
    sections = [
        game
        for game in engine.config.environments
        if game.weight and _seats_of(engine, policy, game_of[game.display_name])
    ]
    name = (sections or engine.config.environments)[0].name
    return f"sparring evaluate --agent 'exported folder={folder}' --environment {name}"


def _seats_of(engine: LocalEngine, policy: Policy, game: Environment) -> list[int]:
    return [
        seat
        for seat, (name, _) in enumerate(engine.seats(game))
        if engine.has_league_learners or name == policy.name
    ]


def choose_policy(engine: LocalEngine, policy: str | None) -> Policy:
    """Return the named policy, or the only one."""
    if policy is None and len(engine.policies) > 1:
        names = ", ".join(engine.policies)
        raise ConfigError(
            f"The run has the policies {names}; name the one to write, such as --policy "
            f"{next(iter(engine.policies))}."
        )
    name = next(iter(engine.policies)) if policy is None else policy
    if name not in engine.policies:
        raise UnknownNameError("policy of this run", name, engine.policies)
    return engine.policies[name]


def _write_sampling(policy: Policy, path: Path) -> None:
    params = policy.params
    settings: dict[str, Any] = {
        "do_sample": True,
        "temperature": params.temperature,
        "top_p": params.top_p,
        "top_k": params.top_k,
    }
    settings |= {
        "max_new_tokens": params.max_new_tokens,
        "eos_token_id": list(policy.renderer.stop_ids),
    }
    settings["pad_token_id"] = policy.model.tokenizer.pad_token_id
    path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def model_card(
    engine: LocalEngine,
    policy: Policy,
    folder: str,
    *,
    step: int,
    weights: str,
    adapter: bool,
    figures: Mapping[str, float],
) -> str:
    """Return the model card: front matter of the Hub, figures, prompts, and loading code."""
    config, prompts = policy.config, dict[str, str]()
    for game, weight in engine.environments:
        seats = _seats_of(engine, policy, game)
        if weight and seats:
            prompts[game.name] = first_prompt(policy, game, seats)
    placeholders = {
        "folder": folder,
        "base": config.model.name,
        "prompt": repr(next(iter(prompts.values()))),
    }
    code = (ADAPTER if adapter else TRANSFORMERS).format(**placeholders)
    sections = [
        _front_matter(config, adapter=adapter),
        f"# {config.name}, step {step}, {weights}",
        f"Trained by play with Sparring, {step} steps: {_methods_text(config)}.",
        *_figure_lines(figures),
        "## Prompts\n\nA conversation begins as below, special tokens included, and the reply is "
        f"one legal action, then {_stop_tokens(policy)}. {_later_turns(config)} Other prompts "
        "were not trained on.",
        *(f"{name}, its first turn:\n\n{_as_block(prompt)}" for name, prompt in prompts.items()),
        f"## Loading\n\n```python\n{code}```",
    ]
    sections.append(f"With Sparring: `{seat_command(engine, policy, folder)}`.")
    if not adapter:
        sections.append(
            "With vLLM: `vllm serve PATH_OF_THIS_FOLDER --generation-config auto`, and "
            "completions with the prompt above.\n"
            "`generation_config.json` holds the sampling settings of training."
        )
    return "\n\n".join(sections) + "\n"


def first_prompt(policy: Policy, game: Environment, seats: Sequence[int]) -> str:
    """Return the prompt of a policy's first turn in the deal of seed 0, special tokens included.

    Until that turn the other seats play random legal actions.
    """
    stream = Stream.from_seed(0).child("card")
    with environment_call(game), temporary_play(game, stream) as state:
        moment = 0
        while not set(seats) & set(state.due()):
            state.step(random_replies(state, stream.child(moment)))
            moment += 1
        seat_due = next(seat for seat in state.due() if seat in seats)
        observation = state.observe(seat_due)
    ledger = Ledger(policy.renderer, policy.context, game)
    ledger.ask(observation.text, observation)
    text: str = policy.model.tokenizer.decode(
        list(ledger.ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
    )
    return text


def _later_turns(config: RunConfig) -> str:
    context = config.context
    if context.name == "full":
        return "What the seat is told next is written after it in the same way."
    options = "".join(f", {name}: {value}" for name, value in context.options.items())
    settings = f"`context: {{name: {context.name}{options}}}`"
    return f"At later turns it saw of its past what Sparring's {settings} shows."


def _front_matter(config: RunConfig, *, adapter: bool) -> str:
    environments = [game.display_name for game in config.environments if game.weight]
    fields: dict[str, Any] = {
        "library_name": "peft" if adapter else "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["sparring", "reinforcement-learning", "self-play", *environments],
    }
    if config.model.name.count("/") == 1 and not config.model.name.startswith((".", "/", "~")):
        fields["base_model"] = config.model.name
    return f"---\n{dump_yaml(fields)}---"


def _figure_lines(figures: Mapping[str, float]) -> list[str]:
    if not figures:
        return []
    rows = "".join(f"| `{name}` | {value:.4g} |\n" for name, value in sorted(figures.items()))
    return [
        "## Figures\n\nMeasured in the run, of these weights. `sparring explain METRIC` says what "
        f"each is.\n\n| metric | value |\n|---|---|\n{rows}".rstrip()
    ]


def _methods_text(config: RunConfig) -> str:
    losses = ", ".join(loss.name for loss in config.losses)
    base = "from random weights" if config.model.name == "tiny" else f"from {config.model.name}"
    games = ", ".join(game.display_name for game in config.environments if game.weight)
    return f"{base}, games {games}, credit {config.credit.name}, losses {losses}"


def _stop_tokens(policy: Policy) -> str:
    return " or ".join(
        f"`{policy.model.tokenizer.decode([index])}`" for index in policy.renderer.stop_ids
    )


def _as_block(text: str) -> str:
    """Return a text as an indented Markdown block, which no text can end."""
    return "\n".join(f"    {line}" for line in text.splitlines())


DRAW_TEXT = "Before each play one of these members is drawn for each team, by its weight"
SIDE_NAMES = ("first side", "second side")
MIXTURE = """# {title}

{draw_text}. Each is a model folder
with a model card of its own; `sparring.json` has the weights.

{table}
With Sparring it is one player:

```
{command}
```
"""


class _MemberWeight(NamedTuple):
    policy: Policy
    member: PlayerRef
    weight: float


def export_mixture(
    engine: LocalEngine,
    folder: Path,
    mixture: MemberMixture,
    *,
    step: int,
    answer: str,
    dtype: str | None = None,
    adapter: bool = False,
    policy: str | None = None,
) -> None:
    """Write the members of a mixture, each as ``export`` does, and their weights.

    If the two sides have different weights and policies, a side's members are its policy's
    snapshots.

    Args:
        engine: the run's engine.
        folder: the target folder; each member is a folder in it.
        mixture: mixture of the run's members.
        step: step of the checkpoint.
        answer: name of the mixture's solution, such as "nash".
        dtype: number type of the weights; see ``export``.
        adapter: whether to write only the adapters; see ``export``.
        policy: the policy of the members, if a side has several policies; None: each side has one.

    Raises:
        ConfigError: several policies are possible.
        SparringError: as for ``export``.
    """
    sides = [
        _members_of_side(engine, weights_of_side, policy, side if len(mixture.sides) > 1 else None)
        for side, weights_of_side in enumerate(mixture.sides)
    ]
    members = {name: member for side_members in sides for name, member in side_members.items()}
    for name, member in members.items():
        export(
            engine,
            folder / name,
            step=step,
            dtype=dtype,
            adapter=adapter,
            policy=member.policy.name,
            member=member.member,
        )
    weights = [
        {name: member.weight for name, member in side_members.items()} for side_members in sides
    ]
    (folder / CARD).write_text(
        MIXTURE.format(
            title=f"{engine.config.name}, step {step}: mixture of members ({answer})",
            draw_text=DRAW_TEXT + ("" if len(weights) == 1 else " in the team's side"),
            table=_weights_table(list(members), weights),
            command=seat_command(engine, next(iter(members.values())).policy, folder.name),
        ),
        encoding="utf-8",
    )
    exported: AnyExportedMixture
    if len(weights) == 1:
        exported = ExportedMixture(answer=answer, step=step, members=weights[0])
    else:
        exported = ExportedSides(answer=answer, step=step, sides=(weights[0], weights[1]))
    write_exported(folder, exported)
    make_readable(folder)


def _members_of_side(
    engine: LocalEngine, weights: Mapping[PlayerRef, float], policy: str | None, side: int | None
) -> dict[str, _MemberWeight]:
    member_weights: dict[str, _MemberWeight] = {}
    for player, weight in weights.items():
        if engine.has_league_learners:
            owner, name = choose_policy(engine, player.name or MAIN), str(player)
            if policy not in (None, owner.name):
                raise ConfigError(
                    f"--policy {policy}: {player} is a snapshot of {owner.name}; leave --policy "
                    "out, so that each member is written with its own policy."
                )
        elif side is None or policy is not None or len(engine.policies) == 1:
            owner, name = choose_policy(engine, policy), str(player)
        else:
            owner = choose_policy(engine, _policy_of_side(engine, side))
            name = str(player.for_policy(owner.name))
        member_weights[name] = _MemberWeight(owner, player, weight)
    return member_weights


def _policy_of_side(engine: LocalEngine, side: int) -> str:
    policies = {
        name: game.name
        for game, weight in engine.environments
        for seat_side, (name, _) in zip(
            side_numbers(tuple(teams_of(game))), engine.seats(game), strict=True
        )
        if weight and seat_side == side
    }
    if len(policies) > 1:
        raise ConfigError(
            f"The {SIDE_NAMES[side]} has several policies: {', '.join(policies)}. Say which to "
            f"write: --policy {next(iter(policies))}."
        )
    return next(iter(policies))


def _weights_table(members: Sequence[str], weights: Sequence[Mapping[str, float]]) -> str:
    headers = ["weight"] if len(weights) == 1 else [f"weight in the {side}" for side in SIDE_NAMES]
    rows = [
        f"| `{name}` | {' | '.join(f'{weights_of.get(name, 0):.6g}' for weights_of in weights)} |"
        for name in members
    ]
    dashes = "|---|" + "---|" * len(headers)
    return "".join(f"{row}\n" for row in (f"| member | {' | '.join(headers)} |", dashes, *rows))
