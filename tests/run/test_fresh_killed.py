"""Fresh order with real processes: workers are killed and lied to, and the training process is killed; every play is accounted for."""

import signal
import subprocess
import sys
import time

import pytest

from sparring.config import resolve
from sparring.config.recipe import to_yaml
from sparring.play.store import EpisodeStore
from sparring.run.events import read_lines
from sparring.run.fresh_steps import account_of
from tests.engine.fleet.chaos import Harm
from tests.engine.fleet.harmed_runs import accounted

CONFIG = {
    "name": "killed", "steps": 8, "threads": 1, "environments": [{"name": "kuhn_poker", "illegal": {"penalty": 0.5}}],
    "rollout": {"games_per_step": 16, "group_size": 2}, "model": {"hidden_size": 8, "layers": 1, "heads": 1}, "matchmaker": {"name": "pfsp", "past": 0.4},
    "league": {"every": 1, "keep": 2}, "credit": {"name": "rae"}, "losses": [{"name": "ppo_clip"}], "warmup": {"updates": 1, "games": 8},
    "evaluation": {"every": 99, "exact": False}, "checkpoint": {"every": 3, "keep": 9}, "store": {"every": 1},
    "scale": {"fleet": "processes", "workers": 2, "unit_games": 2, "lag": 2, "order": "fresh", "restarts": 100_000},
}
COMMAND = "import sys; from sparring import cli; cli.app(sys.argv[1:], standalone_mode=False)"
PATIENCE = 600.0  # seconds for a step of a busy machine


def stored(path):
    return [episode.episode_id for _, episode in EpisodeStore(path / "episodes").episodes()]


@pytest.mark.slow
def test_workers_are_killed_and_answers_come_late_twice_and_spoilt(tmp_path):
    harm = Harm(kills=4, chance=0.3, mean=0.1, sigma=1.2, twice=0.3, rubbish=0.05)
    found = accounted(resolve(CONFIG), tmp_path, harm, count=2)
    assert found.balances and len(found.accounts) == CONFIG["steps"]
    last = found.accounts[-1]
    assert last.open == 0 < last.lost and found.done["killed"] > 0 < found.counted["lost_workers"]
    assert len(stored(tmp_path / "harmed")) == len(set(stored(tmp_path / "harmed"))) == last.learned + last.withheld


def trains(path, *words):
    return subprocess.Popen([sys.executable, "-c", COMMAND, "train", *words, "--run", str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.slow
def test_the_training_process_is_killed_and_goes_on(tmp_path):
    recipe, path = tmp_path / "recipe.yaml", tmp_path / "run"
    recipe.write_text(to_yaml(resolve(CONFIG)))
    lost = [0]
    for after in (2, 5):  # before the first checkpoint, and after it
        process = trains(path, "--resume") if lost[1:] else trains(path, str(recipe))
        end = time.monotonic() + PATIENCE
        while len(read_lines(path / "metrics.jsonl")) < after and time.monotonic() < end:
            assert process.poll() is None, "it has ended"
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        lost.append(account_of(read_lines(path / "metrics.jsonl")[-1]).lost)
    assert trains(path, "--resume").wait() == 0
    accounts = [account_of(line) for line in read_lines(path / "metrics.jsonl")]
    assert len(accounts) == CONFIG["steps"] and all(account.balances for account in accounts)
    assert 0 == lost[1] < lost[2] < accounts[-1].lost and accounts[-1].open == 0
    assert len(stored(path)) == len(set(stored(path))) == accounts[-1].learned + accounts[-1].withheld
