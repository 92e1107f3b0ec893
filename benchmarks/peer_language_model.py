"""A GRPO step of TRL's GRPOTrainer on SmolLM2 with adapters; it runs in the environment of the
peers.

Prints median seconds per step, or the error if the trainer cannot be created. `one-turn` has the
prompts and the reward of peer_training_step.py. `tools` has the look-ups of `lookups-smol` as an
environment with tools, written as in TRL's documentation.
"""

import json
import sys
import tempfile

import torch
from datasets import Dataset
from peer_trl import REPLIES, Clock, prompts, settings, share_of_even_ids
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOTrainer

KIND, FOLDER = sys.argv[1:3]
PROMPTS, NEW_TOKENS, THREADS, WARM_UP, STEPS = map(int, sys.argv[3:8])
FACTS = {"white": "The white box holds the flute.", "flute": "The flute weighs 8."}
torch.set_num_threads(THREADS)


class Library:
    """An environment of two facts to search and one exactly checked answer."""

    def reset(self, **kwargs):
        """Start a new episode."""
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


def make_trainer(output, clock):
    """Return TRL's trainer for this kind of step."""
    tools = KIND == "tools"
    exact = {} if tools else {"generation_kwargs": {"min_new_tokens": NEW_TOKENS}}
    longest = 512 if tools else NEW_TOKENS
    prompt = [{"role": "user", "content": "Use the tools."}]
    data = {"prompt": [prompt] * 64 if tools else prompts(PROMPTS) * 64}
    return GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(FOLDER),
        args=settings(output, STEPS, PROMPTS * REPLIES, longest, **exact),
        train_dataset=Dataset.from_dict(data),
        callbacks=[clock],
        peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"),
        **({"environment_factory": Library} if tools else {"reward_funcs": share_of_even_ids}),
    )


def main():
    """Print the seconds of a step, or the error."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as output:
        try:
            peer = make_trainer(output, clock)
        except (ImportError, ValueError) as error:
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
            return
        peer.train()
    print(json.dumps({"seconds": clock.median(WARM_UP)}))


main()
