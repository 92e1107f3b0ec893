"""A whole GRPO step against TRL's GRPOTrainer: same tiny model, prompts, reward and token counts, in one run.

A step samples 64 replies (8 prompts of 16 tokens, 8 replies each), scores them, estimates advantages, and updates the
weights. ``floor`` is the bare model on the same shapes: the decode passes, one forward and backward over all tokens and
AdamW, with nothing around them. ``efficiency`` is floor over our time.
"""

import argparse
import tempfile
from pathlib import Path

import torch
from common import ask_peer, median_seconds, record

from sparring import registry
from sparring.config import LearnerConfig
from sparring.models.language_model import LanguageModel
from sparring.models.tiny import tiny_model, tiny_tokenizer
from sparring.rng import Stream
from sparring.rollout.table import turn_table
from sparring.samplers.in_process import in_process
from sparring.schedule import parse
from sparring.train.learner import Learner, WeightedLoss
from sparring.train.pack import pack
from sparring.types import Episode, SampleRequest, SamplingParams, Segment, Turn

PROMPTS, REPLIES, PROMPT_TOKENS = 8, 8, 16
WORDS = [f"w{number:02d}" for number in range(35)]
SIZES = {"94k": {"hidden_size": 60, "layers": 2, "heads": 4}, "2.4M": {"hidden_size": 224, "layers": 4, "heads": 4}}


def build(size):
    """Return the model; the tokenizer has 40 entries."""
    tokenizer = tiny_tokenizer(WORDS)
    network = tiny_model(vocabulary_size=len(tokenizer), stream=Stream.from_seed(0), context=96, **SIZES[size])
    return LanguageModel(network, tokenizer)


def prompts():
    """Return the prompts as words."""
    return [" ".join(WORDS[(7 * row + 3 * column) % len(WORDS)] for column in range(PROMPT_TOKENS)) for row in range(PROMPTS)]


def reward(ids):
    """Return the share of even token ids: something to be learned that costs nothing."""
    return sum(token % 2 == 0 for token in ids) / len(ids)


def our_step(model, new_tokens):
    """Return a function that runs one whole step with the parts that training uses."""
    sampler, params = in_process(model), SamplingParams(max_new_tokens=new_tokens)
    contexts = [tuple(model.tokenizer(text)["input_ids"]) for text in prompts() for _ in range(REPLIES)]
    loss = WeightedLoss(bound=registry.bind("losses", "ppo_clip"), weight=parse(1.0))
    learner = Learner(model, LearnerConfig(learning_rate=1e-4), [loss], temperature=1.0)
    credit, root, count = registry.bind("credit", "grpo"), Stream.from_seed(0), [0]

    def episode(number, context, result):
        segments = (Segment(kind="prompt", ids=context), Segment(kind="sampled", ids=result.ids, logprobs=result.logprobs))
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
        asked = [SampleRequest(ids=ids, stream=stream.child(row).key) for row, ids in enumerate(contexts)]
        results = sampler.sample(asked, params, ())
        episodes = [episode(row, ids, result) for row, (ids, result) in enumerate(zip(contexts, results, strict=True))]
        data = pack(episodes)
        estimate = credit(turn_table(episodes), {})
        metrics = learner.update(data, estimate.advantages[data.turn_of], None, progress=0.0, stream=stream)
        assert metrics["logprob_difference_max"] < 1e-4
        assert data.num_tokens == len(contexts) * (PROMPT_TOKENS + new_tokens)

    return step


def bare_step(model, new_tokens):
    """Return a function that runs the model alone on the same shapes: decode, forward, backward, AdamW."""
    rows, length = PROMPTS * REPLIES, PROMPT_TOKENS + new_tokens
    ids = torch.randint(0, 40, (rows, length), generator=torch.Generator().manual_seed(0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step():
        with torch.inference_mode():
            cache = model.new_cache(rows, length)
            start = torch.zeros(rows, dtype=torch.int64)
            hidden = model.extend(ids[:, :PROMPT_TOKENS], start, cache)[:, -1]
            for position in range(PROMPT_TOKENS, length):
                model.logits(hidden).softmax(-1)
                if position + 1 < length:
                    hidden = model.extend(ids[:, position : position + 1], start + position, cache)[:, 0]
        logits = model.logits(model.hidden(ids)[:, PROMPT_TOKENS - 1 : -1].flatten(0, 1))
        loss = -logits.log_softmax(-1).gather(1, ids[:, PROMPT_TOKENS:].reshape(-1, 1)).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def compare(size, new_tokens, aim):
    """Return one row: ours, TRL's and the bare model's rollouts per second."""
    rollouts = PROMPTS * REPLIES
    with tempfile.TemporaryDirectory() as folder:
        build(size).save(Path(folder))
        first = median_seconds(our_step(build(size), new_tokens))
        peer = ask_peer("peer_training_step.py", folder, new_tokens)["seconds"]
        second = median_seconds(our_step(build(size), new_tokens))
    floor = median_seconds(bare_step(build(size), new_tokens))
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
    torch.set_num_threads(parser.parse_args().threads)
    record("training_step", [compare("94k", 32, 3.0), compare("94k", 4, 6.0), compare("2.4M", 32, 1.3)])
