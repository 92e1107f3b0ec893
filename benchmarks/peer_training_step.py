"""One GRPO step of TRL's GRPOTrainer on a model folder; runs in the peers' environment.

Prints median seconds per step.
"""

import json
import statistics
import sys
import tempfile
import time

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

FOLDER, NEW_TOKENS, WARM_UP, STEPS = sys.argv[1], int(sys.argv[2]), 4, 14
WORDS = [f"w{number:02d}" for number in range(35)]
PROMPTS = [
    " ".join(WORDS[(7 * row + 3 * column) % len(WORDS)] for column in range(16)) for row in range(8)
]


class Clock(TrainerCallback):
    """Remembers when steps end."""

    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())


def reward(completion_ids, **kwargs):
    """Return the share of even token ids of each reply."""
    assert all(len(ids) == NEW_TOKENS for ids in completion_ids)
    return [sum(token % 2 == 0 for token in ids) / len(ids) for ids in completion_ids]


clock = Clock()
with tempfile.TemporaryDirectory() as output:
    config = GRPOConfig(
        output_dir=output,
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=64,
        num_generations=8,
        max_completion_length=NEW_TOKENS,
        generation_kwargs={"min_new_tokens": NEW_TOKENS},
        beta=0.0,
        temperature=1.0,
        learning_rate=1e-4,
        lr_scheduler_type="constant",
        gradient_checkpointing=False,
        max_steps=STEPS,
        logging_steps=1000,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(FOLDER),
        reward_funcs=reward,
        args=config,
        train_dataset=Dataset.from_dict({"prompt": PROMPTS * 64}),
        callbacks=[clock],
    )
    trainer.train()
gaps = [later - earlier for earlier, later in zip(clock.ends, clock.ends[1:], strict=False)]
print(json.dumps({"seconds": statistics.median(gaps[WARM_UP:])}))
