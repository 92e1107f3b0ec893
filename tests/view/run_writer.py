"""Writer of a small Kuhn poker run folder in the format of runs; every turn has every column."""

import json

import pyarrow as pa

from sparring.core.records import EnvironmentSpec, Episode, Segment, Turn, Verdict
from sparring.play.store import CREDIT_COLUMNS as CREDIT
from sparring.play.store import CREDIT_SCHEMA, CreditStore, EpisodeStore

CARDS = ("J", "Q", "K")
CONFIG = "name: made\nseed: {seed}\nsteps: 30\nthreads: 1\nenvironments:\n- name: kuhn_poker\nrollout:\n  games_per_step: 4\n"

TRAINING = (
    *(
        "steps=3",
        "threads=1",
        "store.every=1",
        "warmup.updates=1",
        "warmup.games=8",
        "rollout.games_per_step=8",
        "checkpoint.every=1",
        "checkpoint.keep=3",
    ),
    *("model.hidden_size=8", "model.layers=1", "model.heads=1", "evaluation.exact=false", "evaluation.opponents=[]"),
)


def turn(seat, reply, *, card="K", event="ok", prompt="", values=(0.5, -1.0), has_verdict=True, **columns):
    verdict = Verdict(actions=("pass", "bet"), values=values, best=frozenset({"pass"})) if has_verdict else None
    record = Turn(
        seat=seat,
        turn_index=0,
        agent="learner",
        state_key=f"{card}-key",
        legal_actions=("pass", "bet"),
        reply=reply,
        action=reply if event == "ok" else None,
        event=event,
        rewards={"game": 1.0 if seat else -1.0},
        segments=(
            Segment(kind="prompt", ids=(1, 5, 6)),
            Segment(kind="sampled", ids=(13, 2), logprobs=(-0.5, -0.25), weights_version=3),
        ),
        view=f"{card}-view",
        prompt=prompt or f"you hold the secret card {card}",
        moment=seat,
        verdict=verdict,
    )
    return record._replace(**columns)


def episode(number, *turns, group=None, agents=("learner", "past-000010"), returns=(-1.0, 1.0), **columns):
    return Episode(
        episode_id=number,
        group_id=number if group is None else group,
        game="kuhn_poker",
        seed=7,
        roles=("first", "second"),
        agents=agents,
        trained=(True, False),
        turns=turns or (turn(0, "pass", card="K"), turn(1, "bet", card="J")),
        returns=returns,
        environment=EnvironmentSpec(
            name="kuhn_poker", options={"start": "K J"}, illegal={"rule": "forfeit"}, label="kuhn_poker", version=1
        ),
        **columns,
    )


def credit(step, episodes, advantage=lambda number, seat: 0.5 - seat):
    rows = {field.name: [] for field in CREDIT_SCHEMA}
    for episode in episodes:
        for turn_record in episode.turns:
            for candidate in (turn_record, *turn_record.candidates):
                value = advantage(episode.episode_id, candidate.seat)
                columns = dict(
                    step=step,
                    episode_id=episode.episode_id,
                    seat=candidate.seat,
                    turn_index=candidate.turn_index,
                    candidate=candidate.candidate,
                    selected=True,
                    replayed=False,
                    reward=1.0,
                )
                for name, cell in {
                    **columns,
                    "advantage": value,
                    "token_advantages": None,
                    "baseline": 0.25,
                    "value": None,
                    "value_target": None,
                    "entropies": [0.6, 0.1],
                }.items():
                    rows[name].append(cell)
    return CREDIT.to_bytes(
        pa.table([pa.array(rows[field.name], field.type) for field in CREDIT_SCHEMA], schema=CREDIT_SCHEMA)
    )


def write_step(folder, step, episodes, **options):
    EpisodeStore(folder / "episodes").append(step, episodes)
    CreditStore(folder / "credit").put(step, credit(step, episodes, **options))


def write_people_episode(folder, number, episode):
    folder.mkdir(exist_ok=True)
    EpisodeStore(folder / "episodes").append(number, [episode])


def append(path, *lines):
    with open(path, "a", encoding="utf-8") as stream:
        stream.writelines(json.dumps(line) + "\n" for line in lines)


def write_figures(folder, steps):
    append(
        folder / "metrics.jsonl",
        *({"step": step, "loss": 1 / step, "legal_rate": None if step == 2 else 0.5} for step in steps),
    )
    rates = {"games_per_second": 8.0, "tokens_per_second": 40.0, "seconds/round": 0.5, "seconds/play": 0.25}
    append(folder / "timing.jsonl", *({"step": step, **rates} for step in steps))


def write_run(folder, *, steps=(10, 20, 30), seed=0):
    folder.mkdir(parents=True)
    (folder / "sparring-run.json").write_text('{"format": 1}')
    (folder / "config.yaml").write_text(CONFIG.format(seed=seed))
    write_figures(folder, range(1, 31))
    append(
        folder / "health.jsonl", {"step": 5, "metric": "loss", "message": "loss is large", "value": 0.2, "stops": False}
    )
    for step in steps:
        illegal_turn = turn(0, "fold", event="illegal")
        episodes = [
            episode(step * 4),
            episode(step * 4 + 1, illegal_turn, forfeited_by=0),
            episode(step * 4 + 2, group=step * 4),
            episode(step * 4 + 3, agents=("learner", "learner"), returns=(0.0, 0.0)),
        ]
        write_step(folder, step, episodes)
    return folder
