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
from tests.engine.fleet.faulty_runs import count_by_state, train_with_faults
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
LONG_DELAYS = NetworkModel(mean=60, sigma=1.8, starting=5)
MANY_FAULTS = replace(LONG_DELAYS, dies=0.1, dies_idle=0.05, hangs=0.02, lost=0.02, twice=0.2, late=0.7, rubbish=0.05)
WARMUP_UPDATES = 1  # updates before the first step, so the weights of step 1 have version 1


def config_of(scale=(), **changes):
    return resolve({**BASE, **changes, "scale": {**SCALE, **dict(scale)}})


def train_simulated(path, config, network=LONG_DELAYS, seed=0, resume=False):
    folder = RunFolder.open(path) if resume else RunFolder.create(path, to_yaml(config))
    engine = LocalEngine(config)
    fleet = SimulatedFleet(config.model_dump(mode="json"), config.scale.workers, seed, network=network)
    with folder:
        engine.workers = FreshWorkers(engine, fleet, path / "weights")
        try:
            train(config, engine, folder, resume=resume)
        finally:
            engine.workers.close()
    return read_budgets(path)


def read_budgets(path):
    return [count_by_state(line) for line in read_lines(path / "metrics.jsonl")]


def stored_episodes(path):
    return [episode for _, episode in EpisodeStore(path / "episodes").episodes()]


def check_budgets(path, config, budgets):
    games, lag = config.rollout.games_per_step, config.scale.lag
    assert len(budgets) == config.steps
    for step, budget in enumerate(budgets, start=1):
        assert budget.is_balanced and budget.open <= lag * games
        assert budget.learned == step * games
    assert budgets[-1].open == 0
    ids = [episode.episode_id for episode in stored_episodes(path)]
    assert len(ids) == len(set(ids)) == budgets[-1].learned + budgets[-1].withheld
    rows = read_lines(path / "metrics.jsonl")
    assert all(0 <= row["lag"] <= row["lag_max"] <= lag for row in rows)
    assert json.loads((path / ISSUED_FILE).read_bytes()) == {"issued": budgets[-1].issued}


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    path, config = tmp_path_factory.mktemp("fresh") / "run", config_of()
    return path, config, train_simulated(path, config)


def test_every_episode_is_accounted_for_and_too_old_ones_are_withheld(finished_run):
    path, config, budgets = finished_run
    check_budgets(path, config, budgets)
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
    budgets = train_simulated(tmp_path / "run", config, MANY_FAULTS, seed)
    check_budgets(tmp_path / "run", config, budgets)
    assert budgets[-1].lost > 0


@pytest.mark.slow
def test_episodes_are_accounted_for_with_faults_of_more_seeds(tmp_path, stride):
    for seed in range(100, 100 + 40 // stride):
        config = config_of({"lag": 1 + seed % 4, "workers": 1 + seed % 5, "unit_games": 1 + seed % 7})
        check_budgets(tmp_path / str(seed), config, train_simulated(tmp_path / str(seed), config, MANY_FAULTS, seed))


def test_a_simulation_depends_only_on_its_seed(finished_run, tmp_path):
    path, config, _ = finished_run
    for name, seed in (("same", 0), ("other", 1)):
        train_simulated(tmp_path / name, config, seed=seed)
    metrics = [(folder / "metrics.jsonl").read_bytes() for folder in (path, tmp_path / "same", tmp_path / "other")]
    assert metrics[0] == metrics[1] != metrics[2]


def test_episodes_continue_over_updates_and_segments_name_their_weights(finished_run):
    path, config, _ = finished_run
    episodes = [episode for episode in stored_episodes(path) if episode.turns]
    episodes_of_several_versions = [episode for episode in episodes if len(trained_versions(episode)) > 1]
    assert episodes_of_several_versions
    for episode in episodes_of_several_versions:
        versions = [
            segment.weights_version
            for turn in sorted(trained_turns(episode), key=lambda turn: turn.moment)
            for segment in sampled_segments(turn)
        ]
        assert versions == sorted(versions)
    assert any(
        len(sampled_segments(turn)) > 1 for episode in episodes for turn in trained_turns(episode)
    )  # also within a reply
    engine = LocalEngine(config)
    reader = Reader(engine.model, temperature=1.0, micro_tokens=config.learner.micro_tokens)
    differences_of_other_versions = []
    for version in (WARMUP_UPDATES + 1, WARMUP_UPDATES + 2, WARMUP_UPDATES + 3):
        for step, is_other_version in ((version - WARMUP_UPDATES, False), (version - WARMUP_UPDATES + 1, True)):
            engine.restore(path / "checkpoints" / f"step_{step:06d}")
            for episode in episodes:
                batch = pack([episode])
                segments = [segment for turn in trained_turns(episode) for segment in sampled_segments(turn)]
                has_version = np.array(
                    [segment.weights_version == version for segment in segments for _ in segment.ids], bool
                )
                difference = np.abs(reader.logprobs(batch) - batch.logprobs)[has_version]
                assert is_other_version or difference.max(initial=0.0) < 1e-4
                differences_of_other_versions += difference.tolist() if is_other_version else []
    assert max(differences_of_other_versions) > 1e-2


def sampled_segments(turn):
    return [segment for segment in turn.segments if segment.kind == "sampled"]


def trained_turns(episode):
    return sorted(
        (turn for turn in episode.turns if episode.trained[turn.seat]), key=lambda turn: (turn.seat, turn.turn_index)
    )


def trained_versions(episode):
    return {segment.weights_version for turn in trained_turns(episode) for segment in sampled_segments(turn)}


def test_the_staleness_of_a_reply_is_that_of_its_oldest_weights(finished_run):
    path, config, _ = finished_run
    lags_by_step = {}
    for step, episode in EpisodeStore(path / "episodes").episodes():
        lags_by_step.setdefault(step, []).append(
            WARMUP_UPDATES + step - 1 - min(trained_versions(episode), default=WARMUP_UPDATES + step - 1)
        )
    for line in read_lines(path / "metrics.jsonl"):
        step_lags = lags_by_step[line["step"]]
        assert line["lag_max"] == max(
            lag for lag in step_lags if lag <= config.scale.lag
        )  # episodes with older weights are withheld
    assert sum(lag > config.scale.lag for step_lags in lags_by_step.values() for lag in step_lags) > 0


def test_withheld_episodes_are_not_trained(finished_run):
    path, config, budgets = finished_run
    trained_ids, withheld_groups = set(), set()
    for file in (path / "credit").glob("*.parquet"):
        trained_ids |= {row["episode_id"] for row in pq.read_table(file).to_pylist() if row["selected"]}
    for step, episode in EpisodeStore(path / "episodes").episodes():
        if WARMUP_UPDATES + step - 1 - min(trained_versions(episode), default=99) > config.scale.lag:
            withheld_groups.add(episode.group_id)
    group_of_episode = {episode.episode_id: episode.group_id for episode in stored_episodes(path)}
    assert len([group for group in group_of_episode.values() if group in withheld_groups]) == budgets[-1].withheld > 0
    assert trained_ids and not {group_of_episode[episode_id] for episode_id in trained_ids} & withheld_groups


def test_a_resumed_run_keeps_arrived_episodes_and_counts_others_as_lost(tmp_path):
    # a unit is larger than a step, so a step takes a part of a unit
    config, path = config_of({"unit_games": 6}), tmp_path / "run"
    budgets = train_simulated(path, config)
    last_step = 2
    for step in checkpoint.steps(path):
        if step > last_step:
            shutil.rmtree(path / "checkpoints" / f"step_{step:06d}")
    record = FreshRecord.restored(path / "checkpoints" / f"step_{last_step:06d}")
    arrived_ids = [episode.episode_id for group in record.groups for episode in group.episodes]
    issued = json.loads((path / ISSUED_FILE).read_bytes())["issued"]
    resumed_budgets = train_simulated(path, config, seed=7, resume=True)
    check_budgets(path, config, resumed_budgets)
    assert resumed_budgets[:last_step] == budgets[:last_step]
    budget_before = budgets[last_step - 1]
    assert (
        resumed_budgets[-1].lost
        == budget_before.open - len(arrived_ids) + issued - budget_before.issued
        > 0
        < len(arrived_ids)
    )
    assert set(arrived_ids) <= {episode.episode_id for episode in stored_episodes(path)}


def test_issued_episodes_are_stored_before_they_are_sent(tmp_path, monkeypatch):
    path, counts_are_right, original_record = tmp_path / "run", [], FreshWorkers._record_loss

    def record_and_check(self, units):
        unit_sizes = [
            len(self._open[unit].specs) for unit in units if unit in self._open and unit in self._snapshots_of
        ]
        num_before = json.loads((path / ISSUED_FILE).read_bytes())["issued"] if unit_sizes else 0
        original_record(self, units)
        counts_are_right.extend(
            [json.loads((path / ISSUED_FILE).read_bytes())["issued"] - num_before == sum(unit_sizes)]
            if unit_sizes
            else []
        )

    monkeypatch.setattr(FreshWorkers, "_record_loss", record_and_check)
    train_simulated(path, config_of(steps=3), MANY_FAULTS)
    assert counts_are_right and all(counts_are_right)


def test_a_run_killed_before_its_first_checkpoint_counts_issued_episodes(tmp_path):
    config = config_of(steps=2)
    folder = RunFolder.create(tmp_path / "run", to_yaml(config))
    with folder:
        (tmp_path / "run" / ISSUED_FILE).write_text("{")
    with pytest.raises(CheckpointError, match=r"issued\.json should hold the number of issued episodes"):
        train_simulated(tmp_path / "run", config, resume=True)
    (tmp_path / "run" / ISSUED_FILE).write_text('{"issued": 11}')
    budgets = train_simulated(tmp_path / "run", config, resume=True)
    assert budgets[-1].is_balanced and budgets[-1].lost == 11


def test_a_record_is_read_back_equal_also_with_empty_episodes(finished_run, tmp_path):
    episodes = stored_episodes(finished_run[0])[:4]
    empty_episode = replace(episodes[0], episode_id=999, turns=())
    record = FreshRecord(
        EpisodeBudget(issued=9, open=5, learned=4),
        3,
        [FreshGroup(7, "a", (episodes[1], empty_episode)), FreshGroup(2, "b", (episodes[2], episodes[3]))],
    )
    record.save(tmp_path)
    restored_record = FreshRecord.restored(tmp_path)
    assert (restored_record.budget, restored_record.num_draws, restored_record.groups) == (
        record.budget,
        3,
        record.groups,
    )
    (tmp_path / "fresh.json").write_text("{}")
    with pytest.raises(CheckpointError, match="no step had taken"):
        FreshRecord.restored(tmp_path)
    FreshRecord().save(tmp_path / "none")  # writes nothing
    assert not (tmp_path / "none").exists() and FreshRecord.restored(tmp_path / "none").groups == ()


def test_failed_groups_are_lost_and_replaced(tmp_path, monkeypatch):
    from sparring.environments.openspiel.base import Game

    original_reset = Game.reset

    def reset_or_fail(self, stream):
        if stream.key % 7 == 0:
            raise OSError("the cards are wet")
        return original_reset(self, stream)

    monkeypatch.setattr(Game, "reset", reset_or_fail)
    config = config_of(warmup={"updates": 0}, steps=3)
    budgets = train_simulated(tmp_path / "run", config)
    check_budgets(tmp_path / "run", config, budgets)
    lines = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert budgets[-1].lost == 2 * sum(line["dropped_groups"] for line in lines) > 0


KUHN = "kuhn_poker"
KUHN_WITH_ORACLE = {"name": KUHN, "oracle": {"name": "cfr", "iterations": 20}}
TWO_POLICIES = {
    "environments": [{"name": "signalling", "illegal": {"rule": "random"}}],
    "roles": {"sender": "a", "receiver": "b"},
    "matchmaker": {"name": "mirror"},
    "league": {},
    "credit": {"name": "mars"},
}
OTHER_OPTIONS = {
    "a frozen policy": {**TWO_POLICIES, "policies": {"a": {}, "b": {"frozen": True}}},
    "illegal replies that are retried": {"environments": [{"name": KUHN, "illegal": {"rule": "retry", "retries": 2}}]},
    "illegal replies that forfeit": {"environments": [{"name": KUHN, "illegal": {"rule": "forfeit"}}]},
    "several replies to a prompt": {
        "environments": [KUHN_WITH_ORACLE],
        "rollout": {**BASE["rollout"], "candidates": {"count": 2, "by": "oracle"}},
    },
    "trials": {
        "environments": [
            {"name": "trial", "options": {"environment": {"name": KUHN}, "attempts": 2}, "illegal": {"rule": "random"}}
        ]
    },
    "truncated distributions": {"rollout": {**BASE["rollout"], "top_p": 0.9}},
    "averaged weights": {"learner": {"learning_rate": 0.02, "average": 0.9}},
    "a bot as opponent": {"matchmaker": {"name": "mixed", "bots": {"random": 0.5}}},
    "two policies and fixed starts": {
        **TWO_POLICIES,
        "policies": {"a": {}, "b": {}},
        "rollout": {**BASE["rollout"], "starts": 3},
        "curriculum": {"name": "difficulty"},
    },
    "an oracle": {
        "environments": [KUHN_WITH_ORACLE],
        "rewards": [{"name": "best_action", "weight": 0.1}],
        "reorder_outcomes": True,
    },
    "turns selected": {"selection": {"name": "variance_filter"}},
}


@pytest.mark.parametrize("options_name", OTHER_OPTIONS)
def test_fresh_order_works_with_other_options(tmp_path, options_name):
    config = config_of(**{"steps": 3, **OTHER_OPTIONS[options_name]})
    budgets = train_simulated(tmp_path / "run", config, MANY_FAULTS, 3)
    assert all(budget.is_balanced for budget in budgets) and budgets[-1].open == 0
    # a curriculum may drop groups
    assert budgets[-1].learned == 3 * config.rollout.games_per_step or "curriculum" in OTHER_OPTIONS[options_name]
    for episode in stored_episodes(tmp_path / "run"):
        for turn in episode.turns:
            assert all(len(segment.ids) == len(segment.logprobs) for segment in sampled_segments(turn))
    lines = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert all(line.get("logprob_difference_max", 0.0) < 1e-4 for line in lines)
    assert "rewards" not in OTHER_OPTIONS[options_name] or lines[-1]["judged_rate/kuhn_poker"] > 0


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
    changed_config = {**BASE, **changes}
    resolve({**changed_config, "scale": {**changed_config["scale"], "order": "pinned"}})


def test_fresh_order_without_workers_is_refused():
    config = config_of()
    with pytest.raises(ConfigError, match=r"scale\.order=fresh: this engine has no workers"):
        FreshSteps(config, LocalEngine(config), Methods.of(config)).episodes_of(RunState())


# Fresh order with real processes: workers and the training process are killed, and messages are repeated or
# damaged; every episode is accounted for.
REAL_PROCESSES = {
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
CLI_CODE = "import sys; from sparring import cli; cli.app(sys.argv[1:], standalone_mode=False)"
TIMEOUT_SECONDS = 600.0  # for a step on a busy machine


@pytest.mark.slow
def test_episodes_are_accounted_for_with_killed_workers(tmp_path):
    fault_plan = FaultPlan(kills=4, chance=0.3, mean=0.1, sigma=1.2, twice=0.3, rubbish=0.05)
    outcome = train_with_faults(resolve(REAL_PROCESSES), tmp_path, fault_plan, num_workers=2)
    assert outcome.balances and len(outcome.accounts) == REAL_PROCESSES["steps"]
    last_budget = outcome.accounts[-1]
    assert last_budget.open == 0 < last_budget.lost and outcome.done["killed"] > 0 < outcome.counted["lost_workers"]
    ids = [episode.episode_id for episode in stored_episodes(tmp_path / "harmed")]
    assert len(ids) == len(set(ids)) == last_budget.learned + last_budget.withheld


def start_training(path, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", CLI_CODE, "train", *arguments, "--run", str(path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.slow
def test_episodes_are_accounted_for_after_kills_of_the_training_process(tmp_path):
    recipe, path = tmp_path / "recipe.yaml", tmp_path / "run"
    recipe.write_text(to_yaml(resolve(REAL_PROCESSES)))
    num_lost = [0]
    for kill_after in (2, 5):  # before the first checkpoint, and after it
        process = start_training(path, "--resume") if num_lost[1:] else start_training(path, str(recipe))
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while len(read_lines(path / "metrics.jsonl")) < kill_after and time.monotonic() < deadline:
            assert process.poll() is None, "the training process has ended"
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        num_lost.append(count_by_state(read_lines(path / "metrics.jsonl")[-1]).lost)
    assert start_training(path, "--resume").wait() == 0
    budgets = [count_by_state(line) for line in read_lines(path / "metrics.jsonl")]
    assert len(budgets) == REAL_PROCESSES["steps"] and all(budget.is_balanced for budget in budgets)
    # before the first checkpoint each unit is issued once
    assert 0 == num_lost[1] < num_lost[2] < budgets[-1].lost and budgets[-1].open == 0
    ids = [episode.episode_id for episode in stored_episodes(path)]
    assert len(ids) == len(set(ids)) == budgets[-1].learned + budgets[-1].withheld
