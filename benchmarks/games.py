"""Turns per second of random play with text, legal actions and records, compared with TextArena's
loop in the same run.
"""

import argparse

from common import ask_peer, median_seconds, self_play_specs
from published import record, settings

from sparring.environments.catalogue import make_game
from sparring.play.players.random import random
from sparring.play.rollout import play

GAMES = {"tic_tac_toe": "TicTacToe-v0", "kuhn_poker": "KuhnPoker-v0"}
NUM_GAMES, SECONDS = 2000, 3.0  # number of our games; duration of TextArena's loop


def turns_per_second(name, games):
    """Return turns per second of our complete rollout: specs, deals, observations, legal actions,
    parsing and records.
    """
    game, turns = make_game(name), []

    def work():
        specs = self_play_specs(game, games, "random")
        turns.append(sum(len(episode.turns) for episode in play(specs, {"random": random()})))

    seconds = median_seconds(work, repeats=5)
    return turns[-1] / seconds


options, rows = settings(argparse.ArgumentParser(description=__doc__)), []
count, seconds = (20, 0.2) if options.quick else (NUM_GAMES, SECONDS)
for ours, theirs in GAMES.items():
    first = turns_per_second(ours, count)
    peer, second = ask_peer("peer_games.py", theirs, seconds), turns_per_second(ours, count)
    mine = (first + second) / 2
    rows.append(
        {
            "game": ours,
            "turns/s": mine,
            "TextArena turns/s": peer["turns_per_second"],
            "ratio": mine / peer["turns_per_second"],
        }
    )
record("games", rows, options)
