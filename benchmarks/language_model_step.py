"""A training step of SmolLM2-135M with adapters: one turn beside TRL, and several turns.

One turn is the GRPO step of training_step.py with 4 prompts of 8 replies. Several turns is a step
of `lookups-smol`: questions that are answered by calls of tools, in conversations whose length the
model decides. TRL is asked for the same with an environment of tools; where it cannot, the row has
its error. ``bare`` is the model alone on the shapes of one turn, one row per reply.
"""

import argparse
import statistics
import time

import torch
from common import ask_peer, median_seconds
from published import record, settings
from training_step import REPLIES, bare_step, our_step, prompts

from sparring.config import resolve
from sparring.engine.local import LocalEngine
from sparring.models.packaged import converted
from sparring.recipe import apply_overrides, load_recipe
from sparring.run.methods import Methods
from sparring.run.state import RunState
from sparring.run.step import play_round
from sparring.run.warmup import warm_up

TEXTS, NEW_TOKENS, REPEATS = prompts()[:4], 32, 3
MODEL = "SmolLM2-135M, adapters of rank 16"


def engine(changes):
    """Return the engine of `lookups-smol`, whose model is the one of all rows."""
    config = resolve(apply_overrides(load_recipe("lookups-smol"), changes))
    return LocalEngine(config)


def one_turn(threads):
    """Return the row of one turn: ours, TRL's and the bare model's rollouts per second."""
    rollouts = len(TEXTS) * REPLIES
    model = engine([f"threads={threads}"]).model
    ours = median_seconds(our_step(model, NEW_TOKENS, TEXTS), repeats=REPEATS, warm_up=1)
    told = len(model.tokenizer(TEXTS[0])["input_ids"])
    bare = median_seconds(bare_step(model, NEW_TOKENS, rollouts, told), repeats=REPEATS, warm_up=1)
    folder = converted("smollm2-135m")
    peer = ask_peer("peer_language_model.py", "one-turn", folder, len(TEXTS), NEW_TOKENS, threads)
    return {
        "step": "one turn",
        "model": MODEL,
        "rollouts/s": rollouts / ours,
        "TRL rollouts/s": rollouts / peer["seconds"],
        "ratio": peer["seconds"] / ours,
        "bare rollouts/s": rollouts / bare,
        "efficiency": bare / ours,
    }


def several_turns(threads):
    """Return the row of several turns; TRL's seconds, or why it has none."""
    own = engine([f"threads={threads}", "warmup.updates=4"])
    methods, state = Methods.of(own.config, [game for game, _ in own.environments]), RunState()
    warm_up(own.config, own)
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        state = play_round(own.config, own, methods, state).state
        seconds.append(time.perf_counter() - began)
    folder = converted("smollm2-135m")
    peer = ask_peer("peer_language_model.py", "tools", folder, len(TEXTS), NEW_TOKENS, threads)
    plays = own.config.rollout.games_per_step
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
    given = settings(parser)
    record("language_model_step", [one_turn(given.threads), several_turns(given.threads)], given)
