"""Runs on simulated faulty workers end with the same bytes as a run in one process."""

import json

import pytest

from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe, to_yaml
from sparring.core.errors import RolloutError
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.engine.workers.distributed import DistributedRollouts
from sparring.engine.workers.units import UnreadableError, WorkUnit, answer_of, head_of
from sparring.play.spec import EpisodeSpec
from sparring.run import checkpoint
from sparring.run.folder import RunFolder
from sparring.run.loop import train
from tests.engine.fleet.network_model import NetworkModel, other_bytes
from tests.engine.fleet.simulated import SimulatedFleet

OVERRIDES = (
    *(
        "steps=4",
        "threads=1",
        "warmup.updates=1",
        "warmup.games=16",
        "rollout.games_per_step=64",
        "league.every=2",
    ),
    *(
        "matchmaker.name=pfsp",
        "matchmaker.past=0.4",
        "evaluation.exact=false",
        "model.hidden_size=16",
        "model.layers=1",
        "model.heads=2",
    ),
    *("scale.unit_games=8", "scale.fleet=processes", "scale.workers=3", "scale.restarts=10000"),
)
MANY_FAULTS = NetworkModel(
    mean=5, sigma=1, starting=5, dies=0.1, dies_idle=0.08, hangs=0.05, lost=0.05, twice=0.2, late=0.7, rubbish=0.1
)
NO_FAULTS = NetworkModel(mean=5, sigma=1)
COUNT_NAMES = ("lost_workers", "resent_units", "timed_out_units", "duplicate_units", "refused_weights")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("simulated") / "run"


@pytest.fixture(scope="module")
def answer_cache():
    return {}


def train_run(path, fleet=None, overrides=()):
    config = resolve(apply_overrides(load_recipe("kuhn-tiny"), [*OVERRIDES, *overrides]))
    engine = LocalEngine(config)
    with RunFolder.create(path, to_yaml(config), overwrite=path.exists()) as folder:
        if fleet is not None:
            engine.workers = DistributedRollouts(engine, fleet, path / "weights")
        train(config, engine, folder)
        if engine.workers is not None:
            engine.workers.close()
    checkpoint_path = checkpoint.load_latest(path).path
    weights = {file.name: file.read_bytes() for file in checkpoint_path.glob("*.safetensors")}
    lines = [json.loads(line) for line in (path / "timing.jsonl").read_text().splitlines()]
    assert len(weights) > 2
    return (
        weights,
        (path / "metrics.jsonl").read_bytes(),
        {name: sum(line.get(name, 0) for line in lines) for name in COUNT_NAMES},
    )


@pytest.fixture(scope="module")
def run_without_workers(run_folder):
    return train_run(run_folder)[:2]


def make_simulated_fleet(seed, answer_cache=None, network=MANY_FAULTS, workers=3):
    config = resolve(apply_overrides(load_recipe("kuhn-tiny"), OVERRIDES)).model_dump(mode="json")
    return SimulatedFleet(config, workers, seed, network=network, memo=answer_cache)


def assert_same_bytes(run_folder, answer_cache, run_without_workers, seed, network=MANY_FAULTS, workers=3):
    *files, counts = train_run(run_folder, make_simulated_fleet(seed, answer_cache, network, workers))
    assert tuple(files) == run_without_workers, (
        f"bytes differ from the run without workers: seed {seed}, {workers} workers"
    )
    return counts


@pytest.mark.always
@pytest.mark.parametrize("seed", range(6))
def test_faults_change_no_byte(run_folder, answer_cache, run_without_workers, seed):
    counts = assert_same_bytes(run_folder, answer_cache, run_without_workers, seed)
    assert counts["lost_workers"] > 2 and counts["resent_units"] > 2 and counts["refused_weights"] == 0


def test_without_faults_no_byte_changes_and_nothing_is_counted(run_folder, answer_cache, run_without_workers):
    assert assert_same_bytes(run_folder, answer_cache, run_without_workers, 0, NO_FAULTS) == dict.fromkeys(
        COUNT_NAMES, 0
    )


@pytest.mark.parametrize(
    ("network", "expected_counts"),
    [
        (NetworkModel(dies=0.2), {"lost_workers", "resent_units"}),
        (NetworkModel(dies_idle=0.3), {"lost_workers"}),
        (NetworkModel(hangs=0.1), {"lost_workers", "resent_units", "timed_out_units"}),
        (NetworkModel(lost=0.1), {"lost_workers", "resent_units", "timed_out_units"}),
        (NetworkModel(twice=0.5), {"duplicate_units"}),
        (NetworkModel(rubbish=0.2), {"lost_workers", "resent_units"}),
    ],
    ids=["dies", "dies_idle", "hangs", "lost", "twice", "rubbish"],
)
def test_each_fault_is_counted_under_its_name(run_folder, answer_cache, run_without_workers, network, expected_counts):
    counts = assert_same_bytes(run_folder, answer_cache, run_without_workers, 3, network)
    expected_counts |= {"resent_units"} if network.dies_idle and counts["resent_units"] else set()
    assert {name for name, number in counts.items() if number} == expected_counts


def test_episodes_are_in_the_order_of_specs_for_any_order_of_answers(run_folder):
    config = resolve(apply_overrides(load_recipe("kuhn-tiny"), OVERRIDES))
    engine = LocalEngine(config)
    game = engine.environments[0][0]
    root = Stream.from_seed(9)
    specs = [
        EpisodeSpec(
            game=game,
            episode_id=99 - number,  # the order of specs differs from the order of numbers
            group_id=99 - number,
            deal=root.child(number),
            stream=root.child(number).child("play"),
            seats=("learner", "learner"),
            trained=(True, True),
        )
        for number in range(60)
    ]
    for seed in range(3):
        workers = DistributedRollouts(engine, make_simulated_fleet(seed), run_folder.parent / "weights")
        assert workers.play(specs) == engine.play(specs)
        workers.close()


def test_the_same_seed_gives_the_same_faults(run_folder, answer_cache, run_without_workers):
    first_counts, second_counts = (
        assert_same_bytes(run_folder, answer_cache, run_without_workers, 5) for _ in range(2)
    )
    assert first_counts == second_counts
    assert first_counts != assert_same_bytes(run_folder, answer_cache, run_without_workers, 6)


def test_a_unit_that_always_kills_its_worker_is_given_up_with_a_command(run_folder, answer_cache):
    with pytest.raises(RolloutError, match=rf"ended 5 workers.*sparring replay-unit {run_folder} 1 0\."):
        train_run(
            run_folder, make_simulated_fleet(0, answer_cache, NetworkModel(dies=1.0, most=1000)), ("warmup.updates=0",)
        )


def test_workers_that_never_start_are_given_up(run_folder, answer_cache):
    with pytest.raises(RolloutError, match=r"lost more than 3 times"):
        train_run(run_folder, make_simulated_fleet(0, answer_cache, NetworkModel(lost=1.0)), ("scale.restarts=3",))


@pytest.mark.slow
def test_faults_of_two_hundred_seeds_change_no_byte(run_folder, answer_cache, run_without_workers, stride):
    total = dict.fromkeys(COUNT_NAMES, 0)
    for seed in range(1000, 1000 + 200 // stride):
        counts = assert_same_bytes(run_folder, answer_cache, run_without_workers, seed, workers=1 + seed % 5)
        total = {name: total[name] + counts[name] for name in COUNT_NAMES}
    assert min(total[name] for name in COUNT_NAMES[:4]) > 200 // stride


def test_damaged_bytes_are_never_read_as_an_answer():
    messages = {
        other_bytes(b'{"units": [{"number": 0}]}\n' + bytes(range(99)), Stream.from_seed(0).child(number))
        for number in range(99)
    }
    assert len(messages) > 7
    for message in messages:
        with pytest.raises(UnreadableError):
            head_of(message)
            answer_of(message, {0: WorkUnit((), (), None)})
