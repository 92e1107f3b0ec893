"""`scale.order: fresh`: a step learns from what comes first, plays go on over updates, and every play is accounted for."""

import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from sparring.config import resolve
from sparring.config.recipe import to_yaml
from sparring.core.errors import CheckpointError, ConfigError
from sparring.engine.local import LocalEngine
from sparring.engine.workers.episode_budget import ISSUED, EpisodeBudget
from sparring.engine.workers.fresh_episodes import FreshWorkers
from sparring.learn.pack import Reader, pack
from sparring.play.store import EpisodeStore
from sparring.run import checkpoint
from sparring.run.events import read_lines
from sparring.run.folder import RunFolder
from sparring.run.loop import train
from sparring.run.pipeline import FreshSteps
from sparring.run.state import FreshGroup, FreshRecord, RunState
from sparring.run.step import Methods
from tests.engine.fleet.faulty_fleet import FaultPlan
from tests.engine.fleet.faulty_runs import account_of, train_with_faults
from tests.engine.fleet.network_model import NetworkModel
from tests.engine.fleet.simulated import SimulatedFleet
from tests.run.builders import SMALL_RUN

SCALE = {
    "fleet": "processes",
    "workers": 4,
    "unit_games": 2,
    "lag": 2,
    "order": "fresh",
    "restarts": 100_000,
    "timeout": 1e5,
}
BASE = {
    **SMALL_RUN,
    "name": "fresh",
    "steps": 5,
    "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}],
    "rollout": {"games_per_step": 8, "group_size": 2},
    "matchmaker": {"name": "pfsp", "past": 0.4},
    "league": {"every": 1, "keep": 2},
    "losses": [{"name": "ppo_clip"}],
    "learner": {"learning_rate": 0.02},
    "scale": SCALE,
}
HEAVY = NetworkModel(mean=60, sigma=1.8, starting=5)
GALE = replace(HEAVY, dies=0.1, dies_idle=0.05, hangs=0.02, lost=0.02, twice=0.2, late=0.7, rubbish=0.05)
WARM = 1  # updates before the first step


def config_of(scale=(), **changes):
    return resolve({**BASE, **changes, "scale": {**SCALE, **dict(scale)}})


def run(path, config, network=HEAVY, seed=0, resume=False):
    folder = RunFolder.open(path) if resume else RunFolder.create(path, to_yaml(config))
    engine = LocalEngine(config)
    fleet = SimulatedFleet(config.model_dump(mode="json"), config.scale.workers, seed, network=network)
    with folder:
        engine.workers = FreshWorkers(engine, fleet, path / "weights")
        try:
            train(config, engine, folder, resume=resume)
        finally:
            engine.workers.close()
    return accounts(path)


def accounts(path):
    return [account_of(line) for line in read_lines(path / "metrics.jsonl")]


def stored(path):
    return [episode for _, episode in EpisodeStore(path / "episodes").episodes()]


def check(path, config, budgets):
    games, lag = config.rollout.games_per_step, config.scale.lag
    assert len(budgets) == config.steps
    for step, account in enumerate(budgets, start=1):
        assert account.balances and account.open <= lag * games
        assert account.learned == step * games
    assert budgets[-1].open == 0
    ids = [episode.episode_id for episode in stored(path)]
    assert len(ids) == len(set(ids)) == budgets[-1].learned + budgets[-1].withheld
    lines = read_lines(path / "metrics.jsonl")
    assert all(0 <= line["lag"] <= line["lag_max"] <= lag for line in lines)
    assert json.loads((path / ISSUED).read_bytes()) == {"issued": budgets[-1].issued}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path, config = tmp_path_factory.mktemp("fresh") / "run", config_of()
    return path, config, run(path, config)


def test_every_play_is_accounted_for_and_plays_that_are_too_old_are_withheld(whole):
    path, config, budgets = whole
    check(path, config, budgets)
    assert budgets[-1].lost == 0 < budgets[-1].withheld
    lines = read_lines(path / "metrics.jsonl")
    withheld = np.diff([0.0, *(line["withheld_games"] for line in lines)])
    assert [line["withheld_share"] for line in lines] == pytest.approx(
        withheld / (withheld + config.rollout.games_per_step)
    )
    assert max(line["lag_max"] for line in read_lines(path / "metrics.jsonl")) == 2


@pytest.mark.parametrize("seed", range(3))
def test_and_under_deaths_late_and_double_answers(tmp_path, seed):
    config = config_of({"lag": 1 + seed})
    budgets = run(tmp_path / "run", config, GALE, seed)
    check(tmp_path / "run", config, budgets)
    assert budgets[-1].lost > 0


@pytest.mark.slow
def test_and_under_more_bad_luck(tmp_path, stride):
    for seed in range(100, 100 + 40 // stride):
        config = config_of({"lag": 1 + seed % 4, "workers": 1 + seed % 5, "unit_games": 1 + seed % 7})
        check(tmp_path / str(seed), config, run(tmp_path / str(seed), config, GALE, seed))


def test_a_simulation_is_the_same_with_the_same_seed_and_another_with_another(whole, tmp_path):
    path, config, _ = whole
    for name, seed in (("same", 0), ("other", 1)):
        run(tmp_path / name, config, seed=seed)
    figures = [(folder / "metrics.jsonl").read_bytes() for folder in (path, tmp_path / "same", tmp_path / "other")]
    assert figures[0] == figures[1] != figures[2]


def test_plays_go_on_over_updates_and_each_run_of_tokens_names_the_weights_that_said_it(whole):
    path, config, _ = whole
    plays = [episode for episode in stored(path) if episode.turns]
    several = [play for play in plays if len(own_versions(play)) > 1]
    assert several
    for episode in several:
        versions = [
            part.weights_version
            for turn in sorted(own_turns(episode), key=lambda turn: turn.moment)
            for part in runs_of(turn)
        ]
        assert versions == sorted(versions)
    assert any(len(runs_of(turn)) > 1 for episode in plays for turn in own_turns(episode))  # within a reply too
    engine = LocalEngine(config)
    reader = Reader(engine.model, temperature=1.0, micro_tokens=config.learner.micro_tokens)
    apart = []
    for version in (WARM + 1, WARM + 2, WARM + 3):
        for step, other in ((version - WARM, False), (version - WARM + 1, True)):
            engine.restore(path / "checkpoints" / f"step_{step:06d}")
            for episode in plays:
                data = pack([episode])
                parts = [part for turn in own_turns(episode) for part in runs_of(turn)]
                chosen = np.array([part.weights_version == version for part in parts for _ in part.ids], bool)
                difference = np.abs(reader.logprobs(data) - data.logprobs)[chosen]
                assert other or difference.max(initial=0.0) < 1e-4
                apart += difference.tolist() if other else []
    assert max(apart) > 1e-2


def runs_of(turn):
    return [part for part in turn.segments if part.kind == "sampled"]


def own_turns(episode):
    return sorted(
        (turn for turn in episode.turns if episode.trained[turn.seat]), key=lambda turn: (turn.seat, turn.turn_index)
    )


def own_versions(episode):
    return {part.weights_version for turn in own_turns(episode) for part in runs_of(turn)}


def test_a_reply_is_as_old_as_the_oldest_weights_in_it(whole):
    path, config, _ = whole
    lags = {}
    for step, episode in EpisodeStore(path / "episodes").episodes():
        lags.setdefault(step, []).append(WARM + step - 1 - min(own_versions(episode), default=WARM + step - 1))
    for line in read_lines(path / "metrics.jsonl"):
        of_step = lags[line["step"]]
        assert line["lag_max"] == max(lag for lag in of_step if lag <= config.scale.lag)  # older ones are withheld
    assert sum(lag > config.scale.lag for of_step in lags.values() for lag in of_step) > 0


def test_no_loss_sees_what_is_withheld(whole):
    path, config, budgets = whole
    trained, withheld = set(), set()
    for file in (path / "credit").glob("*.parquet"):
        trained |= {row["episode_id"] for row in pq.read_table(file).to_pylist() if row["selected"]}
    for step, episode in EpisodeStore(path / "episodes").episodes():
        if WARM + step - 1 - min(own_versions(episode), default=99) > config.scale.lag:
            withheld.add(episode.group_id)
    groups = {episode.episode_id: episode.group_id for episode in stored(path)}
    assert len([group for group in groups.values() if group in withheld]) == budgets[-1].withheld > 0
    assert trained and not {groups[group] for group in trained} & withheld


def test_a_run_that_goes_on_keeps_what_had_come_and_counts_the_rest_as_lost(tmp_path):
    config, copy = config_of({"unit_games": 6}), tmp_path / "run"  # a step takes a part of a unit
    budgets = run(copy, config)
    after = 2
    for step in checkpoint.steps(copy):
        if step > after:
            shutil.rmtree(copy / "checkpoints" / f"step_{step:06d}")
    record = FreshRecord.restored(copy / "checkpoints" / f"step_{after:06d}")
    came = [episode.episode_id for group in record.groups for episode in group.episodes]
    issued = json.loads((copy / ISSUED).read_bytes())["issued"]
    again = run(copy, config, seed=7, resume=True)
    check(copy, config, again)
    assert again[:after] == budgets[:after]
    known = budgets[after - 1]
    assert again[-1].lost == known.open - len(came) + issued - known.issued > 0 < len(came)
    assert set(came) <= {episode.episode_id for episode in stored(copy)}


def test_what_is_issued_again_is_written_down_before_it_is_sent(tmp_path, monkeypatch):
    path, grown, losing = tmp_path / "run", [], FreshWorkers._record_loss

    def watched(self, units):
        plays = [len(self._open[unit].specs) for unit in units if unit in self._open and unit in self._snapshots_of]
        before = json.loads((path / ISSUED).read_bytes())["issued"] if plays else 0
        losing(self, units)
        grown.extend([json.loads((path / ISSUED).read_bytes())["issued"] - before == sum(plays)] if plays else [])

    monkeypatch.setattr(FreshWorkers, "_record_loss", watched)
    run(path, config_of(steps=3), GALE)
    assert grown and all(grown)


def test_a_run_that_was_killed_before_its_first_checkpoint_counts_what_it_had_issued(tmp_path):
    config = config_of(steps=2)
    folder = RunFolder.create(tmp_path / "run", to_yaml(config))
    with folder:
        (tmp_path / "run" / ISSUED).write_text("{")
    with pytest.raises(CheckpointError, match=r"issued\.json should hold the number of issued plays"):
        run(tmp_path / "run", config, resume=True)
    (tmp_path / "run" / ISSUED).write_text('{"issued": 11}')
    budgets = run(tmp_path / "run", config, resume=True)
    assert budgets[-1].balances and budgets[-1].lost == 11


def test_a_record_is_read_again_as_it_was_written_with_plays_in_which_nobody_spoke(whole, tmp_path):
    plays = stored(whole[0])[:4]
    silent = replace(plays[0], episode_id=999, turns=())
    record = FreshRecord(
        EpisodeBudget(issued=9, open=5, learned=4),
        3,
        [FreshGroup(7, "a", (plays[1], silent)), FreshGroup(2, "b", (plays[2], plays[3]))],
    )
    record.save(tmp_path)
    restored = FreshRecord.restored(tmp_path)
    assert (restored.account, restored.draws, restored.groups) == (record.account, 3, record.groups)
    (tmp_path / "fresh.json").write_text("{}")
    with pytest.raises(CheckpointError, match="no step had taken"):
        FreshRecord.restored(tmp_path)
    FreshRecord().save(tmp_path / "none")  # writes nothing
    assert not (tmp_path / "none").exists() and FreshRecord.restored(tmp_path / "none").groups == ()


def test_groups_that_fail_are_lost_and_others_are_played_for_them(tmp_path, monkeypatch):
    from sparring.environments.openspiel.base import Game

    whole_reset = Game.reset

    def flaky(self, stream):
        if stream.key % 7 == 0:
            raise OSError("the cards are wet")
        return whole_reset(self, stream)

    monkeypatch.setattr(Game, "reset", flaky)
    config = config_of(warmup={"updates": 0}, steps=3)
    budgets = run(tmp_path / "run", config)
    check(tmp_path / "run", config, budgets)
    lines = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert budgets[-1].lost == 2 * sum(line["dropped_groups"] for line in lines) > 0


KUHN = "kuhn_poker"
ORACLE = {"name": KUHN, "oracle": {"name": "cfr", "iterations": 20}}
TWO = {
    "environments": [{"name": "signalling", "illegal": {"rule": "random"}}],
    "roles": {"sender": "a", "receiver": "b"},
    "matchmaker": {"name": "mirror"},
    "league": {},
    "credit": {"name": "mars"},
}
BESIDE = {
    "a frozen policy": {**TWO, "policies": {"a": {}, "b": {"frozen": True}}},
    "illegal replies that are tried again": {
        "environments": [{"name": KUHN, "illegal": {"rule": "retry", "retries": 2}}]
    },
    "illegal replies that forfeit": {"environments": [{"name": KUHN, "illegal": {"rule": "forfeit"}}]},
    "several replies to a prompt": {
        "environments": [ORACLE],
        "rollout": {**BASE["rollout"], "candidates": {"count": 2, "by": "oracle"}},
    },
    "trials": {
        "environments": [
            {"name": "trial", "options": {"environment": {"name": KUHN}, "attempts": 2}, "illegal": {"rule": "random"}}
        ]
    },
    "truncated distributions": {"rollout": {**BASE["rollout"], "top_p": 0.9}},
    "averaged weights": {"learner": {"learning_rate": 0.02, "average": 0.9}},
    "an opponent that is no model": {"matchmaker": {"name": "mixed", "bots": {"random": 0.5}}},
    "two policies and fixed starts": {
        **TWO,
        "policies": {"a": {}, "b": {}},
        "rollout": {**BASE["rollout"], "starts": 3},
        "curriculum": {"name": "difficulty"},
    },
    "an oracle": {
        "environments": [ORACLE],
        "rewards": [{"name": "best_action", "weight": 0.1}],
        "reorder_outcomes": True,
    },
    "turns selected": {"selection": {"name": "variance_filter"}},
}


@pytest.mark.parametrize("beside", BESIDE)
def test_what_else_a_run_may_have(tmp_path, beside):
    config = config_of(**{"steps": 3, **BESIDE[beside]})
    budgets = run(tmp_path / "run", config, GALE, 3)
    assert all(account.balances for account in budgets) and budgets[-1].open == 0
    # which weighs groups
    assert budgets[-1].learned == 3 * config.rollout.games_per_step or "curriculum" in BESIDE[beside]
    for episode in stored(tmp_path / "run"):
        for turn in episode.turns:
            assert all(len(part.ids) == len(part.logprobs) for part in runs_of(turn))
    lines = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert all(line.get("logprob_difference_max", 0.0) < 1e-4 for line in lines)
    assert "rewards" not in BESIDE[beside] or lines[-1]["judged_rate/kuhn_poker"] > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"rollout": {**BASE["rollout"], "refills": 1}},
            r"rollout\.refills=1 .*write rollout\.refills: 0, or scale\.order: pinned",
        ),
        (
            {"rollout": {**BASE["rollout"], "plan": {"name": "tree", "branching": [2]}}},
            r"rollout\.plan=tree .*write rollout\.plan: none",
        ),
        ({"rollout": {**BASE["rollout"], "playouts": 2}}, r"rollout\.playouts=2 .*write rollout\.playouts: 0"),
        ({"replay": {"name": "r3"}}, r"replay=r3 .*write replay: none"),
        (
            {"policies": {"main": {}, "b": {}}, "league": {"every": 1, "learners": {"main": {}, "b": {}}}},
            r"league\.learners=main, b .*write league\.learners: \{\}",
        ),
        ({"scale": {**SCALE, "lag": 0}}, r"order=fresh and lag=0.*lag: 2, or order: pinned"),
        ({"scale": {**SCALE, "fleet": "here", "workers": 0}}, r"order=fresh and workers=0.*write fleet: processes"),
    ],
)
def test_what_needs_plays_of_a_steps_own_is_refused_with_what_to_write(changes, message):
    with pytest.raises(ConfigError, match=message):
        resolve({**BASE, **changes})
    pinned = {**BASE, **changes}
    resolve({**pinned, "scale": {**pinned["scale"], "order": "pinned"}})


def test_without_workers_nobody_plays():
    config = config_of()
    with pytest.raises(ConfigError, match=r"scale\.order=fresh: this engine has no workers"):
        FreshSteps(config, LocalEngine(config), Methods.of(config)).episodes_of(RunState())


# fresh order with real processes: workers are killed and lied to, and the training process is killed; every play is accounted for
CONFIG = {
    **SMALL_RUN,
    "name": "killed",
    "steps": 8,
    "rollout": {"games_per_step": 16, "group_size": 2},
    "matchmaker": {"name": "pfsp", "past": 0.4},
    "league": {"every": 1, "keep": 2},
    "losses": [{"name": "ppo_clip"}],
    "evaluation": {"every": 99, "exact": False},
    "checkpoint": {"every": 3, "keep": 9},
    "scale": {"fleet": "processes", "workers": 2, "unit_games": 2, "lag": 2, "order": "fresh", "restarts": 100_000},
}
COMMAND = "import sys; from sparring import cli; cli.app(sys.argv[1:], standalone_mode=False)"
PATIENCE = 600.0  # seconds for a step of a busy machine


@pytest.mark.slow
def test_workers_are_killed_and_answers_come_late_twice_and_spoilt(tmp_path):
    harm = FaultPlan(kills=4, chance=0.3, mean=0.1, sigma=1.2, twice=0.3, rubbish=0.05)
    outcome = train_with_faults(resolve(CONFIG), tmp_path, harm, count=2)
    assert outcome.balances and len(outcome.accounts) == CONFIG["steps"]
    last = outcome.accounts[-1]
    assert last.open == 0 < last.lost and outcome.done["killed"] > 0 < outcome.counted["lost_workers"]
    ids = [episode.episode_id for episode in stored(tmp_path / "harmed")]
    assert len(ids) == len(set(ids)) == last.learned + last.withheld


def trains(path, *words):
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, "train", *words, "--run", str(path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


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
    ids = [episode.episode_id for episode in stored(path)]
    assert len(ids) == len(set(ids)) == accounts[-1].learned + accounts[-1].withheld
