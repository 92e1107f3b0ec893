"""A GRPO step of TRL's GRPOTrainer on SmolLM2 with adapters; runs in the peers' environment.

Prints median seconds per step, or the error of a trainer that cannot be made. `one-turn` has the
prompts and reward of peer_training_step.py; `tools` the look-ups of `lookups-smol` as an
environment of tools, as TRL's documentation writes one.
"""

import json
import statistics
import sys
import tempfile
import time

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

KIND, FOLDER = sys.argv[1:3]
PROMPTS, NEW_TOKENS, THREADS = map(int, sys.argv[3:6])
REPLIES, WARM_UP, STEPS = 8, 1, 4
WORDS = [f"w{number:02d}" for number in range(35)]
TEXTS = [
    " ".join(WORDS[(7 * row + 3 * column) % len(WORDS)] for column in range(16))
    for row in range(PROMPTS)
]
FACTS = {"white": "The white box holds the flute.", "flute": "The flute weighs 8."}
torch.set_num_threads(THREADS)


class Clock(TrainerCallback):
    """Remembers when steps end."""

    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())


class Library:
    """Two facts that may be searched, and an answer that is checked exactly."""

    def reset(self, **kwargs):
        """Begin anew."""
        self.said = ""
        return "What is the weight of the thing in the white box?"

    def search(self, word: str) -> str:
        """Find a note.

        Args:
            word: what the note is about.

        Returns:
            The note.
        """
        return FACTS.get(word, "Nothing was found.")

    def answer(self, number: int) -> str:
        """Answer the question.

        Args:
            number: the weight.

        Returns:
            That it was heard.
        """
        self.said = str(number)
        return "Thank you."

    def get_reward(self) -> float:
        """Return 1 for the right answer."""
        return float(self.said == "8")


def even(completion_ids, **kwargs):
    """Return the share of even token ids of each reply."""
    return [sum(token % 2 == 0 for token in ids) / len(ids) for ids in completion_ids]


def trainer(output, clock):
    """Return TRL's trainer for the kind of step."""
    tools = KIND == "tools"
    exact = {} if tools else {"generation_kwargs": {"min_new_tokens": NEW_TOKENS}}
    config = GRPOConfig(
        output_dir=output,
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=PROMPTS * REPLIES,
        num_generations=REPLIES,
        max_completion_length=512 if tools else NEW_TOKENS,
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
        **exact,
    )
    prompt = [{"role": "user", "content": "Use the tools."}]
    data = {"prompt": [prompt] * 64 if tools else TEXTS * 64}
    return GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(FOLDER),
        args=config,
        train_dataset=Dataset.from_dict(data),
        callbacks=[clock],
        peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"),
        **({"environment_factory": Library} if tools else {"reward_funcs": even}),
    )


def main():
    """Print the seconds of a step, or why there is none."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as output:
        try:
            made = trainer(output, clock)
        except (ImportError, ValueError) as error:
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
            return
        made.train()
    gaps = [later - earlier for earlier, later in zip(clock.ends, clock.ends[1:], strict=False)]
    print(json.dumps({"seconds": statistics.median(gaps[WARM_UP:])}))


main()
