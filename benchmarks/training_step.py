"""A complete GRPO step compared with TRL's GRPOTrainer, with the same tiny model, prompts, reward
and numbers of tokens.

A step samples 64 replies (8 prompts of 16 tokens, 8 replies each), scores them, estimates
advantages, and updates the weights. ``bare`` is the model on the same shapes, one row per reply: it
runs only the decode passes, one forward and backward over all tokens, and AdamW. Our step computes
a prompt once for all replies of a group, so it can be faster than the bare model.
"""

import argparse
import tempfile
from pathlib import Path

import torch
from common import ask_peer, median_seconds
from published import record, settings
from transformers import Qwen3Config, Qwen3ForCausalLM

from sparring.config import LearnerConfig
from sparring.config.plugins import registry
from sparring.core.records import Episode, SampleRequest, SamplingParams, Segment, Turn
from sparring.core.rng import Stream
from sparring.core.schedule import parse
from sparring.learn.learner import Learner, WeightedLoss
from sparring.learn.pack import pack
from sparring.models.attention import PrefixTree
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.in_process import in_process
from sparring.models.tiny import tiny_model, tiny_tokenizer
from sparring.play.turn_table import turn_table

PROMPTS, REPLIES, PROMPT_TOKENS = 8, 8, 16
WORDS = [f"w{number:02d}" for number in range(35)]
SIZES = {
    "GPT-2 94k": {"hidden_size": 60, "layers": 2, "heads": 4},
    "GPT-2 2.4M": {"hidden_size": 224, "layers": 4, "heads": 4},
    "Qwen3 94k": {
        "hidden_size": 64,
        "intermediate_size": 168,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "head_dim": 16,
    },
    "Qwen3 2.4M": {
        "hidden_size": 224,
        "intermediate_size": 640,
        "num_hidden_layers": 4,
        "num_key_value_heads": 2,
        "head_dim": 56,
    },
}


def build(size):
    """Return a model for a tokenizer of 40 entries.

    The initial logits are small, so that replies differ.
    """
    tokenizer = tiny_tokenizer(WORDS)
    if size.startswith("GPT-2"):
        network = tiny_model(
            vocabulary_size=len(tokenizer), stream=Stream.from_seed(0), context=96, **SIZES[size]
        )
        final = network.transformer.ln_f
    else:
        config = Qwen3Config(
            vocab_size=len(tokenizer),
            num_attention_heads=4,
            max_position_embeddings=96,
            bos_token_id=1,
            eos_token_id=2,
            pad_token_id=0,
            tie_word_embeddings=True,
            **SIZES[size],
        )
        with torch.random.fork_rng():
            torch.manual_seed(0)
            network = Qwen3ForCausalLM(config)
        final = network.model.norm
    with torch.no_grad():
        final.weight.mul_(0.1)
    return LanguageModel(network, tokenizer)


def prompts():
    """Return the prompts as texts of words."""
    return [
        " ".join(WORDS[(7 * row + 3 * column) % len(WORDS)] for column in range(PROMPT_TOKENS))
        for row in range(PROMPTS)
    ]


def reward(ids):
    """Return the share of even token ids: a reward that can be learned and costs no time."""
    return sum(token % 2 == 0 for token in ids) / len(ids)


def our_step(model, new_tokens, texts=None):
    """Return a function that runs one complete step with the parts that training uses."""
    sampler, params = in_process(model), SamplingParams(max_new_tokens=new_tokens)
    contexts = [
        tuple(model.tokenizer(text)["input_ids"])
        for text in texts or prompts()
        for _ in range(REPLIES)
    ]
    loss = WeightedLoss(bound=registry.bind("losses", "ppo_clip"), weight=parse(1.0))
    learner = Learner(model, LearnerConfig(learning_rate=1e-4), [loss], temperature=1.0)
    credit, root, count = registry.bind("credit", "grpo"), Stream.from_seed(0), [0]

    def episode(number, context, result):
        segments = (
            Segment(kind="prompt", ids=context),
            Segment(kind="sampled", ids=result.ids, logprobs=result.logprobs),
        )
        value = reward(result.ids)
        turn = Turn(
            seat=0,
            turn_index=0,
            agent="learner",
            state_key="",
            legal_actions=(),
            reply="",
            action=None,
            event="ok",
            rewards={"task": value},
            segments=segments,
        )
        return Episode(
            episode_id=number,
            group_id=number // REPLIES,
            game="task",
            seed=0,
            roles=("solver",),
            agents=("learner",),
            trained=(True,),
            turns=(turn,),
            returns=(value,),
        )

    def step():
        count[0] += 1
        stream = root.child(count[0])
        requests = [
            SampleRequest(ids=ids, stream=stream.child(row).key) for row, ids in enumerate(contexts)
        ]
        results = sampler.sample(requests, params, ())
        episodes = [
            episode(row, ids, result)
            for row, (ids, result) in enumerate(zip(contexts, results, strict=True))
        ]
        data = pack(episodes)
        assert len(data.sequences) > 0.9 * len(contexts), (
            "replies coincide, and what coincides is computed once"
        )
        estimate = credit(turn_table(episodes), {})
        metrics = learner.update(
            data, estimate.advantages[data.turn_of], None, progress=0.0, stream=stream
        )
        assert metrics["logprob_difference_max"] < 1e-4
        assert data.num_tokens == sum(map(len, contexts)) + len(contexts) * new_tokens

    return step


def bare_step(model, new_tokens, rows=PROMPTS * REPLIES, prompt_tokens=PROMPT_TOKENS):
    """Return a function that runs the model alone on the same shapes: decode, forward, backward,
    AdamW.
    """
    length = prompt_tokens + new_tokens
    ids = torch.randint(0, 40, (rows, length), generator=torch.Generator().manual_seed(0))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    numbers = torch.arange(rows * length)
    tree = PrefixTree(
        ids=ids.flatten(),
        position=numbers % length,
        node=numbers.view(rows, length),
        flat_index=numbers,
        query_index=numbers,
    )

    def step():
        with torch.inference_mode():
            cache = model.new_cache(rows, length)
            start = torch.zeros(rows, dtype=torch.int64)
            hidden = model.extend(ids[:, :prompt_tokens], start, cache)[:, -1]
            for position in range(prompt_tokens, length):
                model.logits(hidden).softmax(-1)
                if position + 1 < length:
                    hidden = model.extend(ids[:, position : position + 1], start + position, cache)[
                        :, 0
                    ]
        hidden = model.hidden(tree)[tree.node[:, prompt_tokens - 1 : -1].flatten()]
        targets = ids[:, prompt_tokens:].reshape(-1, 1)
        loss = -model.logits(hidden).log_softmax(-1).gather(1, targets).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


PEER_STEPS = 4, 14  # steps of TRL: warm-up steps, and all steps


def compare(size, new_tokens, aim, quick=False):
    """Return one row: rollouts per second of our step, of TRL and of the bare model."""
    rollouts, steps = PROMPTS * REPLIES, (1, 3) if quick else PEER_STEPS
    times = {"repeats": 1, "warm_up": 0} if quick else {}
    with tempfile.TemporaryDirectory() as folder:
        build(size).save(Path(folder))
        first = median_seconds(our_step(build(size), new_tokens), **times)
        peer = ask_peer("peer_training_step.py", folder, new_tokens, *steps)["seconds"]
        second = median_seconds(our_step(build(size), new_tokens), **times)
    floor = median_seconds(bare_step(build(size), new_tokens), **times)
    ours = (first + second) / 2
    return {
        "model": size,
        "new tokens": new_tokens,
        "rollouts/s": rollouts / ours,
        "TRL rollouts/s": rollouts / peer,
        "ratio": peer / ours,
        "aim": aim,
        "bare rollouts/s": rollouts / floor,
        "efficiency": floor / ours,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = settings(parser)
    torch.set_num_threads(options.threads)
    cases = [("94k", 32, 3.0), ("94k", 4, 6.0), ("2.4M", 32, 2.0)]
    every = [(f"{family} {size}", *case) for family in ("Qwen3", "GPT-2") for size, *case in cases]
    chosen = [("GPT-2 94k", 4, 6.0)] if options.quick else every
    record("training_step", [compare(*case, quick=options.quick) for case in chosen], options)
