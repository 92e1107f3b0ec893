"""`scale.order: fresh`: a step learns from the first episodes to arrive, and every episode is accounted for."""

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
from sparring.engine.workers.episode_budget import ISSUED_FILE, EpisodeBudget
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
LONG_TAILED = NetworkModel(mean=60, sigma=1.8, starting=5)
MANY_FAULTS = replace(LONG_TAILED, dies=0.1, dies_idle=0.05, hangs=0.02, lost=0.02, twice=0.2, late=0.7, rubbish=0.05)
WARM = 1  # updates before the first step


def config_of(scale=(), **changes):
    return resolve({**BASE, **changes, "scale": {**SCALE, **dict(scale)}})


def run(path, config, network=LONG_TAILED, seed=0, resume=False):
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


def check_accounts(path, config, budgets):
    games, lag = config.rollout.games_per_step, config.scale.lag
    assert len(budgets) == config.steps
    for step, account in enumerate(budgets, start=1):
        assert account.is_balanced and account.open <= lag * games
        assert account.learned == step * games
    assert budgets[-1].open == 0
    ids = [episode.episode_id for episode in stored(path)]
    assert len(ids) == len(set(ids)) == budgets[-1].learned + budgets[-1].withheld
    lines = read_lines(path / "metrics.jsonl")
    assert all(0 <= line["lag"] <= line["lag_max"] <= lag for line in lines)
    assert json.loads((path / ISSUED_FILE).read_bytes()) == {"issued": budgets[-1].issued}


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    path, config = tmp_path_factory.mktemp("fresh") / "run", config_of()
    return path, config, run(path, config)


def test_every_episode_is_accounted_for_and_too_old_ones_are_withheld(finished_run):
    path, config, budgets = finished_run
    check_accounts(path, config, budgets)
    assert budgets[-1].lost == 0 < budgets[-1].withheld
    lines = read_lines(path / "metrics.jsonl")
    withheld = np.diff([0.0, *(line["withheld_games"] for line in lines)])
    assert [line["withheld_share"] for line in lines] == pytest.approx(
        withheld / (withheld + config.rollout.games_per_step)
    )
    assert max(line["lag_max"] for line in read_lines(path / "metrics.jsonl")) == 2


@pytest.mark.parametrize("seed", range(3))
def test_episodes_are_accounted_for_with_faults(tmp_path, seed):
    config = config_of({"lag": 1 + seed})
    budgets = run(tmp_path / "run", config, MANY_FAULTS, seed)
    check_accounts(tmp_path / "run", config, budgets)
    assert budgets[-1].lost > 0


@pytest.mark.slow
def test_episodes_are_accounted_for_with_faults_of_more_seeds(tmp_path, stride):
    for seed in range(100, 100 + 40 // stride):
        config = config_of({"lag": 1 + seed % 4, "workers": 1 + seed % 5, "unit_games": 1 + seed % 7})
        check_accounts(tmp_path / str(seed), config, run(tmp_path / str(seed), config, MANY_FAULTS, seed))


def test_a_simulation_depends_only_on_its_seed(finished_run, tmp_path):
    path, config, _ = finished_run
    for name, seed in (("same", 0), ("other", 1)):
        run(tmp_path / name, config, seed=seed)
    figures = [(folder / "metrics.jsonl").read_bytes() for folder in (path, tmp_path / "same", tmp_path / "other")]
    assert figures[0] == figures[1] != figures[2]


def test_episodes_continue_over_updates_and_segments_name_their_weights(finished_run):
    path, config, _ = finished_run
    plays = [episode for episode in stored(path) if episode.turns]
    with_several_versions = [play for play in plays if len(own_versions(play)) > 1]
    assert with_several_versions
    for episode in with_several_versions:
        versions = [
            segment.weights_version
            for turn in sorted(own_turns(episode), key=lambda turn: turn.moment)
            for segment in runs_of(turn)
        ]
        assert versions == sorted(versions)
    assert any(len(runs_of(turn)) > 1 for episode in plays for turn in own_turns(episode))  # within a reply too
    engine = LocalEngine(config)
    reader = Reader(engine.model, temperature=1.0, micro_tokens=config.learner.micro_tokens)
    other_differences = []
    for version in (WARM + 1, WARM + 2, WARM + 3):
        for step, is_other_version in ((version - WARM, False), (version - WARM + 1, True)):
            engine.restore(path / "checkpoints" / f"step_{step:06d}")
            for episode in plays:
                data = pack([episode])
                parts = [segment for turn in own_turns(episode) for segment in runs_of(turn)]
                chosen = np.array([segment.weights_version == version for segment in parts for _ in segment.ids], bool)
                difference = np.abs(reader.logprobs(data) - data.logprobs)[chosen]
                assert is_other_version or difference.max(initial=0.0) < 1e-4
                other_differences += difference.tolist() if is_other_version else []
    assert max(other_differences) > 1e-2


def runs_of(turn):
    return [segment for segment in turn.segments if segment.kind == "sampled"]


def own_turns(episode):
    return sorted(
        (turn for turn in episode.turns if episode.trained[turn.seat]), key=lambda turn: (turn.seat, turn.turn_index)
    )


def own_versions(episode):
    return {segment.weights_version for turn in own_turns(episode) for segment in runs_of(turn)}


def test_the_staleness_of_a_reply_is_that_of_its_oldest_weights(finished_run):
    path, config, _ = finished_run
    lags = {}
    for step, episode in EpisodeStore(path / "episodes").episodes():
        lags.setdefault(step, []).append(WARM + step - 1 - min(own_versions(episode), default=WARM + step - 1))
    for line in read_lines(path / "metrics.jsonl"):
        of_step = lags[line["step"]]
        assert line["lag_max"] == max(lag for lag in of_step if lag <= config.scale.lag)  # older ones are withheld
    assert sum(lag > config.scale.lag for of_step in lags.values() for lag in of_step) > 0


def test_withheld_episodes_are_not_trained(finished_run):
    path, config, budgets = finished_run
    trained, withheld = set(), set()
    for file in (path / "credit").glob("*.parquet"):
        trained |= {row["episode_id"] for row in pq.read_table(file).to_pylist() if row["selected"]}
    for step, episode in EpisodeStore(path / "episodes").episodes():
        if WARM + step - 1 - min(own_versions(episode), default=99) > config.scale.lag:
            withheld.add(episode.group_id)
    groups = {episode.episode_id: episode.group_id for episode in stored(path)}
    assert len([group for group in groups.values() if group in withheld]) == budgets[-1].withheld > 0
    assert trained and not {groups[group] for group in trained} & withheld


def test_a_resumed_run_keeps_arrived_episodes_and_counts_others_as_lost(tmp_path):
    config, copy = config_of({"unit_games": 6}), tmp_path / "run"  # a step takes a part of a unit
    budgets = run(copy, config)
    last_step = 2
    for step in checkpoint.steps(copy):
        if step > last_step:
            shutil.rmtree(copy / "checkpoints" / f"step_{step:06d}")
    record = FreshRecord.restored(copy / "checkpoints" / f"step_{last_step:06d}")
    arrived = [episode.episode_id for group in record.groups for episode in group.episodes]
    issued = json.loads((copy / ISSUED_FILE).read_bytes())["issued"]
    resumed_budgets = run(copy, config, seed=7, resume=True)
    check_accounts(copy, config, resumed_budgets)
    assert resumed_budgets[:last_step] == budgets[:last_step]
    budget_before = budgets[last_step - 1]
    assert (
        resumed_budgets[-1].lost == budget_before.open - len(arrived) + issued - budget_before.issued > 0 < len(arrived)
    )
    assert set(arrived) <= {episode.episode_id for episode in stored(copy)}


def test_issued_episodes_are_stored_before_they_are_sent(tmp_path, monkeypatch):
    path, grown, losing = tmp_path / "run", [], FreshWorkers._record_loss

    def watched(self, units):
        plays = [len(self._open[unit].specs) for unit in units if unit in self._open and unit in self._snapshots_of]
        before = json.loads((path / ISSUED_FILE).read_bytes())["issued"] if plays else 0
        losing(self, units)
        grown.extend([json.loads((path / ISSUED_FILE).read_bytes())["issued"] - before == sum(plays)] if plays else [])

    monkeypatch.setattr(FreshWorkers, "_record_loss", watched)
    run(path, config_of(steps=3), MANY_FAULTS)
    assert grown and all(grown)


def test_a_run_killed_before_its_first_checkpoint_counts_issued_episodes(tmp_path):
    config = config_of(steps=2)
    folder = RunFolder.create(tmp_path / "run", to_yaml(config))
    with folder:
        (tmp_path / "run" / ISSUED_FILE).write_text("{")
    with pytest.raises(CheckpointError, match=r"issued\.json should hold the number of issued plays"):
        run(tmp_path / "run", config, resume=True)
    (tmp_path / "run" / ISSUED_FILE).write_text('{"issued": 11}')
    budgets = run(tmp_path / "run", config, resume=True)
    assert budgets[-1].is_balanced and budgets[-1].lost == 11


def test_a_record_is_read_back_equal_also_with_empty_episodes(finished_run, tmp_path):
    plays = stored(finished_run[0])[:4]
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


def test_failed_groups_are_lost_and_replaced(tmp_path, monkeypatch):
    from sparring.environments.openspiel.base import Game

    whole_reset = Game.reset

    def flaky(self, stream):
        if stream.key % 7 == 0:
            raise OSError("the cards are wet")
        return whole_reset(self, stream)

    monkeypatch.setattr(Game, "reset", flaky)
    config = config_of(warmup={"updates": 0}, steps=3)
    budgets = run(tmp_path / "run", config)
    check_accounts(tmp_path / "run", config, budgets)
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


@pytest.mark.parametrize("options_name", BESIDE)
def test_fresh_order_works_with_other_options(tmp_path, options_name):
    config = config_of(**{"steps": 3, **BESIDE[options_name]})
    budgets = run(tmp_path / "run", config, MANY_FAULTS, 3)
    assert all(account.is_balanced for account in budgets) and budgets[-1].open == 0
    # which weighs groups
    assert budgets[-1].learned == 3 * config.rollout.games_per_step or "curriculum" in BESIDE[options_name]
    for episode in stored(tmp_path / "run"):
        for turn in episode.turns:
            assert all(len(segment.ids) == len(segment.logprobs) for segment in runs_of(turn))
    lines = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert all(line.get("logprob_difference_max", 0.0) < 1e-4 for line in lines)
    assert "rewards" not in BESIDE[options_name] or lines[-1]["judged_rate/kuhn_poker"] > 0


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
def test_options_that_need_episodes_of_one_step_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        resolve({**BASE, **changes})
    pinned = {**BASE, **changes}
    resolve({**pinned, "scale": {**pinned["scale"], "order": "pinned"}})


def test_fresh_order_without_workers_is_refused():
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
def test_episodes_are_accounted_for_with_killed_workers(tmp_path):
    fault_plan = FaultPlan(kills=4, chance=0.3, mean=0.1, sigma=1.2, twice=0.3, rubbish=0.05)
    outcome = train_with_faults(resolve(CONFIG), tmp_path, fault_plan, count=2)
    assert outcome.is_balanced and len(outcome.accounts) == CONFIG["steps"]
    last_account = outcome.accounts[-1]
    assert last_account.open == 0 < last_account.lost and outcome.done["killed"] > 0 < outcome.counted["lost_workers"]
    ids = [episode.episode_id for episode in stored(tmp_path / "harmed")]
    assert len(ids) == len(set(ids)) == last_account.learned + last_account.withheld


def trains(path, *words):
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, "train", *words, "--run", str(path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.slow
def test_episodes_are_accounted_for_after_kills_of_the_training_process(tmp_path):
    recipe, path = tmp_path / "recipe.yaml", tmp_path / "run"
    recipe.write_text(to_yaml(resolve(CONFIG)))
    num_lost = [0]
    for kill_after in (2, 5):  # before the first checkpoint, and after it
        process = trains(path, "--resume") if num_lost[1:] else trains(path, str(recipe))
        end = time.monotonic() + PATIENCE
        while len(read_lines(path / "metrics.jsonl")) < kill_after and time.monotonic() < end:
            assert process.poll() is None, "it has ended"
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        num_lost.append(account_of(read_lines(path / "metrics.jsonl")[-1]).lost)
    assert trains(path, "--resume").wait() == 0
    accounts = [account_of(line) for line in read_lines(path / "metrics.jsonl")]
    assert len(accounts) == CONFIG["steps"] and all(account.is_balanced for account in accounts)
    assert 0 == num_lost[1] < num_lost[2] < accounts[-1].lost and accounts[-1].open == 0
    ids = [episode.episode_id for episode in stored(path)]
    assert len(ids) == len(set(ids)) == accounts[-1].learned + accounts[-1].withheld
