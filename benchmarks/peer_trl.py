"""Helpers of the scripts that time TRL: prompts, the reward, a clock, the settings of a step.

They are imported in the environment of the peers.
"""

import statistics
import time

from transformers import TrainerCallback
from trl import GRPOConfig

REPLIES = 8  # replies to each prompt
WORDS = [f"w{number:02d}" for number in range(35)]


class Clock(TrainerCallback):
    """A callback that records the time at which each step ends."""

    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())

    def median(self, warm_up):
        """Return the median seconds of a step after ``warm_up`` steps."""
        gaps = [after - before for before, after in zip(self.ends, self.ends[1:], strict=False)]
        return statistics.median(gaps[warm_up:])


def prompts(count):
    """Return the first prompts of training_step.py."""
    return [
        " ".join(WORDS[(7 * row + 3 * column) % len(WORDS)] for column in range(16))
        for row in range(count)
    ]


def share_of_even_ids(completion_ids, **kwargs):
    """Return the share of even token ids of each reply."""
    return [sum(token % 2 == 0 for token in ids) / len(ids) for ids in completion_ids]


def settings(output, steps, rollouts, longest, **more):
    """Return TRL's settings of a plain GRPO step on a CPU in float32."""
    return GRPOConfig(
        output_dir=output,
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=rollouts,
        num_generations=REPLIES,
        max_completion_length=longest,
        beta=0.0,
        temperature=1.0,
        learning_rate=1e-4,
        lr_scheduler_type="constant",
        gradient_checkpointing=False,
        max_steps=steps,
        logging_steps=1000,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        **more,
    )
