"""TextArena's loop with random legal moves; it runs in the environment of the peers."""

import json
import random
import re
import sys
import time

import textarena

NAME, SECONDS = sys.argv[1], float(sys.argv[2])
generator = random.Random(0)


def random_move(text):
    """Return a random legal move of the observation."""
    if NAME.startswith("TicTacToe"):
        board = text[text.rfind("Available Moves") :] if "Available Moves" in text else text
        return generator.choice(re.findall(r"\[\d\]", board))
    return generator.choice(
        re.findall(r"\[(?:check|bet|call|fold)\]", text[text.rfind("available actions") :])
        or ["[check]"]
    )


turns, games, began = 0, 0, time.perf_counter()
while time.perf_counter() - began < SECONDS:
    # a new environment per game, as the observation wrapper keeps the text of earlier games
    environment = textarena.make(NAME)
    environment.reset(num_players=2, seed=games)
    done = False
    while not done:
        _, text = environment.get_observation()
        done, _ = environment.step(action=random_move(str(text)))
        turns += 1
    environment.close()
    games += 1
print(json.dumps({"turns_per_second": turns / (time.perf_counter() - began), "games": games}))
