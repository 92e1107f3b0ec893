"""Runs on workers that die, hang, repeat themselves and talk rubbish as a seed says end with the bytes of one process."""

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
from tests.engine.fleet.network_model import NetworkModel, rubbish
from tests.engine.fleet.simulated import SimulatedFleet

CHANGES = (
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
GALE = NetworkModel(
    mean=5, sigma=1, starting=5, dies=0.1, dies_idle=0.08, hangs=0.05, lost=0.05, twice=0.2, late=0.7, rubbish=0.1
)
CALM = NetworkModel(mean=5, sigma=1)
COUNTS = ("lost_workers", "resent_units", "timed_out_units", "duplicate_units", "refused_weights")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("simulated") / "run"


@pytest.fixture(scope="module")
def memo():
    return {}


def run(path, fleet=None, changes=()):
    config = resolve(apply_overrides(load_recipe("kuhn-tiny"), [*CHANGES, *changes]))
    engine = LocalEngine(config)
    with RunFolder.create(path, to_yaml(config), overwrite=path.exists()) as folder:
        if fleet is not None:
            engine.workers = DistributedRollouts(engine, fleet, path / "weights")
        train(config, engine, folder)
        if engine.workers is not None:
            engine.workers.close()
    last = checkpoint.load_latest(path).path
    weights = {file.name: file.read_bytes() for file in last.glob("*.safetensors")}
    lines = [json.loads(line) for line in (path / "timing.jsonl").read_text().splitlines()]
    assert len(weights) > 2
    return (
        weights,
        (path / "metrics.jsonl").read_bytes(),
        {name: sum(line.get(name, 0) for line in lines) for name in COUNTS},
    )


@pytest.fixture(scope="module")
def alone(run_folder):
    return run(run_folder)[:2]


def simulated(seed, memo=None, weather=GALE, workers=3):
    config = resolve(apply_overrides(load_recipe("kuhn-tiny"), CHANGES)).model_dump(mode="json")
    return SimulatedFleet(config, workers, seed, weather=weather, memo=memo)


def check(run_folder, memo, alone, seed, weather=GALE, workers=3):
    *outcome, counts = run(run_folder, simulated(seed, memo, weather, workers))
    assert tuple(outcome) == alone, f"other bytes than without workers: seed {seed}, {workers} workers"
    return counts


@pytest.mark.always
@pytest.mark.parametrize("seed", range(6))
def test_bad_luck_changes_no_byte(run_folder, memo, alone, seed):
    counts = check(run_folder, memo, alone, seed)
    assert counts["lost_workers"] > 2 and counts["resent_units"] > 2 and counts["refused_weights"] == 0


def test_good_luck_changes_no_byte_and_nothing_is_counted(run_folder, memo, alone):
    assert check(run_folder, memo, alone, 0, CALM) == dict.fromkeys(COUNTS, 0)


@pytest.mark.parametrize(
    ("weather", "counted"),
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
def test_each_harm_is_counted_as_what_it_is(run_folder, memo, alone, weather, counted):
    counts = check(run_folder, memo, alone, 3, weather)
    counted |= {"resent_units"} if weather.dies_idle and counts["resent_units"] else set()
    assert {name for name, number in counts.items() if number} == counted


def test_episodes_come_in_the_order_of_the_specs_whoever_answers_first(run_folder):
    config = resolve(apply_overrides(load_recipe("kuhn-tiny"), CHANGES))
    engine = LocalEngine(config)
    game = engine.environments[0][0]
    root = Stream.from_seed(9)
    specs = [
        EpisodeSpec(
            game=game,
            episode_id=99 - number,  # not in the order of their numbers
            group_id=99 - number,
            deal=root.child(number),
            stream=root.child(number).child("play"),
            seats=("learner", "learner"),
            trained=(True, True),
        )
        for number in range(60)
    ]
    for seed in range(3):
        workers = DistributedRollouts(engine, simulated(seed), run_folder.parent / "weights")
        assert workers.play(specs) == engine.play(specs)
        workers.close()


def test_the_same_seed_is_the_same_bad_luck(run_folder, memo, alone):
    first, second = (check(run_folder, memo, alone, 5) for _ in range(2))
    assert first == second
    assert first != check(run_folder, memo, alone, 6)


def test_a_unit_that_always_ends_its_worker_is_given_up_with_the_command_that_plays_it_alone(run_folder, memo):
    with pytest.raises(RolloutError, match=rf"ended 5 workers.*sparring replay-unit {run_folder} 1 0\."):
        run(run_folder, simulated(0, memo, NetworkModel(dies=1.0, most=1000)), ("warmup.updates=0",))


def test_workers_that_never_come_are_given_up(run_folder, memo):
    with pytest.raises(RolloutError, match=r"lost more than 3 times"):
        run(run_folder, simulated(0, memo, NetworkModel(lost=1.0)), ("scale.restarts=3",))


@pytest.mark.slow
def test_two_hundred_seeds_of_bad_luck_change_no_byte(run_folder, memo, alone, stride):
    total = dict.fromkeys(COUNTS, 0)
    for seed in range(1000, 1000 + 200 // stride):
        counts = check(run_folder, memo, alone, seed, workers=1 + seed % 5)
        total = {name: total[name] + counts[name] for name in COUNTS}
    assert min(total[name] for name in COUNTS[:4]) > 200 // stride


def test_rubbish_is_never_an_answer():
    messages = {
        rubbish(b'{"units": [{"number": 0}]}\n' + bytes(range(99)), Stream.from_seed(0).child(k)) for k in range(99)
    }
    assert len(messages) > 7
    for message in messages:
        with pytest.raises(UnreadableError):
            head_of(message)
            answer_of(message, {0: WorkUnit((), (), None)})
