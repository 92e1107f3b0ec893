"""A run's policy as a folder for others: weights, tokenizer, sampling settings and a model card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sparring.config import RunConfig
from sparring.context.ledger import Ledger
from sparring.engine.local import LocalEngine
from sparring.environments.openspiel.base import Game
from sparring.environments.own import Asking
from sparring.rng import Stream

MODE = 0o644  # of every file, so that a server under another user can read it
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
    engine: LocalEngine, folder: Path, *, step: int, dtype: str | None = None, adapter: bool = False
) -> None:
    """Write the published policy.

    Args:
        engine: of the run.
        folder: where to; made if it is not there.
        step: of the checkpoint, for the model card.
        dtype: of the weights: "float32", "bfloat16" or "float16"; None: as they were trained.
        adapter: write the adapters alone, not merged into the base model.

    Raises:
        ModelError: adapters alone are asked for and the model has none.
    """
    engine.learner.policy.save(folder, dtype=dtype, adapter=adapter)
    if not adapter:
        _write_sampling(engine, folder / "generation_config.json")
    (folder / CARD).write_text(
        card(engine, folder.name, step=step, adapter=adapter), encoding="utf-8"
    )
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(MODE)


def _write_sampling(engine: LocalEngine, path: Path) -> None:
    """Write how the policy was sampled, so that ``generate`` samples alike."""
    params = engine.params
    settings: dict[str, Any] = {
        "do_sample": True,
        "temperature": params.temperature,
        "top_p": params.top_p,
        "top_k": params.top_k,
    }
    settings |= {
        "max_new_tokens": params.max_new_tokens,
        "eos_token_id": list(engine.renderer.stop_ids),
    }
    settings["pad_token_id"] = engine.model.tokenizer.pad_token_id
    path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def card(engine: LocalEngine, folder: str, *, step: int, adapter: bool) -> str:
    """Return the model card: what it is, how it is asked, and how it is loaded."""
    config = engine.config
    prompts = {
        game.name: first_prompt(engine, game) for game, weight in engine.environments if weight
    }
    fill = {
        "folder": folder,
        "base": config.model.name,
        "prompt": repr(next(iter(prompts.values()))),
    }
    code = (ADAPTER if adapter else TRANSFORMERS).format(**fill)
    parts = [
        f"# {config.name}, step {step}",
        f"{config.summary}\n\nTrained by play with Sparring: {_made(config)}.",
        "## Prompts\n\nA conversation begins as below, special tokens included, and the reply is "
        f"one legal action, then {_stops(engine)}. {_later(config)} Other prompts were not trained "
        "on.",
        *(f"{name}, the first seat:\n\n{_block(prompt)}" for name, prompt in prompts.items()),
        f"## Loading\n\n```python\n{code}```",
    ]
    if not adapter:
        parts.append(
            "With vLLM: `vllm serve PATH_OF_THIS_FOLDER --generation-config auto`, and "
            "completions with the prompt above.\n"
            "`generation_config.json` holds the sampling settings of training."
        )
    return "\n\n".join(parts) + "\n"


def first_prompt(engine: LocalEngine, game: Game) -> str:
    """Return what the seat that moves first reads at its first turn of the deal of seed 0, special
    tokens included.
    """
    with Asking(game):
        state = game.reset(Stream.from_seed(0).child("card"))
        seen = state.observe(state.due()[0])
    ledger = Ledger(engine.renderer, engine.context, game)
    ledger.ask(seen.text, seen)
    text: str = engine.model.tokenizer.decode(
        list(ledger.ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
    )
    return text


def _later(config: RunConfig) -> str:
    """Return how a conversation goes on, in a sentence."""
    chosen = config.context
    if chosen.name == "full":
        return "What the seat is told next is written after it in the same way."
    options = "".join(f", {name}: {value}" for name, value in chosen.options.items())
    shown = f"`context: {{name: {chosen.name}{options}}}`"
    return f"At later turns it saw of its past what Sparring's {shown} shows."


def _made(config: RunConfig) -> str:
    """Return how the policy was trained, in words."""
    losses = ", ".join(loss.name for loss in config.losses)
    base = "from random weights" if config.model.name == "tiny" else f"from {config.model.name}"
    return (
        f"{base}, games {', '.join(game.known_as for game in config.environments if game.weight)}, "
        f"credit {config.credit.name}, losses {losses}"
    )


def _stops(engine: LocalEngine) -> str:
    """Return the tokens that end a reply, as text."""
    return " or ".join(
        f"`{engine.model.tokenizer.decode([index])}`" for index in engine.renderer.stop_ids
    )


def _block(text: str) -> str:
    """Return a text as an indented block of Markdown, which nothing in it can end."""
    return "\n".join(f"    {line}" for line in text.splitlines())
