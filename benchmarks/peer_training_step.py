"""One GRPO step of TRL's GRPOTrainer on a model folder; it runs in the environment of the peers.

Prints median seconds per step.
"""

import json
import sys
import tempfile

import torch
from datasets import Dataset
from peer_trl import REPLIES, Clock, prompts, settings, share_of_even_ids
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOTrainer

FOLDER, NEW_TOKENS, WARM_UP, STEPS = sys.argv[1], *map(int, sys.argv[2:5])
PROMPTS = prompts(8)


def reward(completion_ids, **kwargs):
    """Return the share of even token ids of each reply; all replies have equal length."""
    assert all(len(ids) == NEW_TOKENS for ids in completion_ids)
    return share_of_even_ids(completion_ids)


clock = Clock()
with tempfile.TemporaryDirectory() as output:
    length = {"min_new_tokens": NEW_TOKENS}
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(FOLDER),
        reward_funcs=reward,
        args=settings(output, STEPS, len(PROMPTS) * REPLIES, NEW_TOKENS, generation_kwargs=length),
        train_dataset=Dataset.from_dict({"prompt": PROMPTS * 64}),
        callbacks=[clock],
    )
    trainer.train()
print(json.dumps({"seconds": clock.median(WARM_UP)}))
