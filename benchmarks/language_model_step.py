"""Speed of a training step of SmolLM2-135M with adapters, compared with TRL.

The row "one turn" is the GRPO step of training_step.py with 4 prompts and 8 replies to each. The
row "several turns" is a step of `lookups-smol`: the model answers questions by tool calls, and
decides the length of each conversation. TRL gets an environment with the same tools; if TRL fails,
the row has its error. ``bare`` is the model alone on the shapes of one turn, one row per reply.
"""

import argparse
import statistics
import time

import torch
from common import ask_peer, median_seconds
from published import record, settings
from training_step import REPLIES, bare_step, our_step, prompts

from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.engine.local import LocalEngine
from sparring.models.pretrained import convert_packaged
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round
from sparring.run.warmup import warm_up

NUM_PROMPTS, NEW_TOKENS, REPEATS = 4, 32, 3  # tokens of a reply; timings of each
PEER_STEPS = 1, 4  # steps of TRL: warm-up steps, and all steps
MODEL = "SmolLM2-135M, adapters of rank 16"


def engine(changes):
    """Return the engine of `lookups-smol`, whose model all rows use."""
    config = resolve(apply_overrides(load_recipe("lookups-smol"), changes))
    return LocalEngine(config)


def measure_one_turn(options):
    """Return the row of one turn: rollouts per second of our code, of TRL and of the bare model."""
    texts, length = prompts()[: options.prompts], options.new_tokens
    rollouts = len(texts) * REPLIES
    times = {"repeats": options.repeats, "warm_up": min(options.repeats - 1, 1)}
    model = engine([f"threads={options.threads}"]).model
    ours = median_seconds(our_step(model, length, texts), **times)
    prompt_tokens = len(model.tokenizer(texts[0])["input_ids"])
    bare = median_seconds(bare_step(model, length, rollouts, prompt_tokens), **times)
    peer = ask_trl("one-turn", options)
    return {
        "step": "one turn",
        "model": MODEL,
        "rollouts/s": rollouts / ours,
        "TRL rollouts/s": rollouts / peer["seconds"],
        "ratio": peer["seconds"] / ours,
        "bare rollouts/s": rollouts / bare,
        "efficiency": bare / ours,
    }


def ask_trl(kind, options):
    """Return the seconds of a step of TRL, or its error."""
    sizes = (options.prompts, options.new_tokens, options.threads)
    steps = (1, 3) if options.quick else PEER_STEPS
    folder = convert_packaged("smollm2-135m")
    return ask_peer("peer_language_model.py", kind, folder, *sizes, *steps)


def measure_several_turns(options):
    """Return the row of several turns, with TRL's seconds or its error."""
    small = ["warmup.updates=1", "rollout.games_per_step=4", "rollout.in_flight=4"]
    changes = small if options.quick else ["warmup.updates=4"]
    own_engine = engine([f"threads={options.threads}", *changes])
    methods, state = (
        Methods.of(own_engine.config, [game for game, _ in own_engine.environments]),
        RunState(),
    )
    warm_up(own_engine.config, own_engine)
    seconds = []
    for _ in range(options.repeats):
        began = time.perf_counter()
        state = play_round(own_engine.config, own_engine, methods, state).state
        seconds.append(time.perf_counter() - began)
    peer = ask_trl("tools", options)
    plays = own_engine.config.rollout.games_per_step
    return {
        "step": "several turns with tools",
        "model": MODEL,
        "rollouts/s": plays / statistics.median(seconds),
        "TRL rollouts/s": plays / peer["seconds"] if "seconds" in peer else None,
        "TRL says": peer.get("error", ""),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--prompts", type=int, default=NUM_PROMPTS, help="of a step of one turn")
    parser.add_argument("--new-tokens", type=int, default=NEW_TOKENS, help="of a reply")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="of each step")
    options = settings(parser, quick={"prompts": 1, "new_tokens": 8, "repeats": 1})
    record(
        "language_model_step", [measure_one_turn(options), measure_several_turns(options)], options
    )
