"""Runs whose trained seats reply several times to a prompt."""

import json

import pytest
from typer.testing import CliRunner

import sparring
from sparring.cli import app
from sparring.config import resolve
from sparring.core.errors import ConfigError, MissingError

VPR = {"name": "vpr", "baseline": "candidates", "process": "regret"}


def config(**changes):
    given = {
        "name": "candidates", "threads": 1, "steps": 4,
        "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}, "oracle": {"name": "cfr", "iterations": 50}}],
        "rollout": {"games_per_step": 16, "candidates": {"count": 3}}, "rewards": [{"name": "regret"}], "credit": VPR, "reorder_outcomes": True,
        "warmup": {"updates": 2, "games": 16}, "evaluation": {"every": 4, "opponents": []}, "checkpoint": {"every": 2}, "store": {"every": 1},
    }
    return {**given, **changes}


def run(path, **changes):
    return sparring.train(config(**changes), run=path, overwrite=True)


def figures(path):
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def test_all_replies_are_trained_and_recorded(tmp_path):
    found = run(tmp_path / "run")
    last = [row for row in figures(tmp_path / "run") if "loss" in row][-1]
    assert last["logprob_difference_max"] < 1e-4
    assert last["candidates/gain"] > 0 and last["candidates/unjudged"] == 0
    rows = found.table("episodes").to_pandas().merge(found.table("credit").to_pandas(), on=["step", "episode_id", "seat", "turn_index", "candidate"])
    assert len(rows) == len(found.table("episodes"))  # every reply of every seat, as both are trained
    assert rows.selected.all()
    sums = rows.groupby(["step", "episode_id", "state_group"]).agg({"committed": "sum", "advantage": "sum", "candidate": "count"})
    assert (sums.committed == 1).all() and (sums.candidate == 3).all() and (abs(sums.advantage) < 1e-5).all()
    assert (rows.groupby(["step", "episode_id", "state_group"]).score.transform("max")[rows.committed] == rows.score[rows.committed]).all()


def test_an_estimator_that_follows_the_play_is_given_what_was_played(tmp_path):
    found = run(tmp_path / "run", credit={"name": "mars"}, steps=1)
    rows = found.table("episodes").to_pandas().merge(found.table("credit").to_pandas(), on=["step", "episode_id", "seat", "turn_index", "candidate"])
    assert (rows.selected == rows.committed).all()
    assert rows.advantage[~rows.committed].isna().all()


def test_a_run_that_was_stopped_ends_with_the_same_bytes(tmp_path):
    replayed = {"replay": {"name": "r3"}}
    run(tmp_path / "whole", **replayed)
    run(tmp_path / "halves", steps=4, **replayed)
    last = tmp_path / "halves" / "checkpoints"
    for folder in sorted(last.glob("step_*"))[1:]:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    (last / "latest").unlink(missing_ok=True)
    sparring.train(config(**replayed), run=tmp_path / "halves", resume=True)
    for name in ("metrics.jsonl", "checkpoints/step_000004/model.safetensors"):
        assert (tmp_path / "halves" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize("in_flight", [2, 16])
def test_the_number_in_flight_changes_nothing(tmp_path, in_flight):
    rollout = {"games_per_step": 16, "candidates": {"count": 3, "explore": 0.3}}
    run(tmp_path / "a", rollout=rollout, steps=2)
    run(tmp_path / "b", rollout={**rollout, "in_flight": in_flight}, steps=2)
    assert figures(tmp_path / "a") == figures(tmp_path / "b")


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"rollout": {"candidates": {"count": 1}}}, MissingError, "rollout.candidates.count: 4"),
        ({"rewards": [], "credit": {"name": "mars"}}, MissingError, "judges a turn by itself"),
        ({"rewards": [{"name": "potential"}], "credit": {"name": "vpr", "baseline": "candidates", "process": "potential"}}, ConfigError, "reads more than one turn"),
        (
            {"environments": [{"name": "kuhn_poker"}], "rewards": [{"name": "length"}], "credit": {"name": "mars"}, "rollout": {"candidates": {"count": 2, "by": "oracle"}}},
            MissingError,
            "the oracle is to judge",
        ),
        ({"rollout": {"candidates": {"count": 2, "commit": "worst"}}}, ConfigError, "rollout.candidates.commit"),
        ({"rollout": {"candidates": {"count": 0}}}, ConfigError, "rollout.candidates.count"),
        ({"rollout": {"candidates": {"count": 5000}}}, ConfigError, "rollout.candidates.count"),
        ({"rollout": {"games_per_step": 4000, "candidates": {"count": 1000}}}, ConfigError, "lower it, or rollout.in_flight"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_runs(changes, error, said):
    with pytest.raises(error, match=said):
        resolve(config(**changes))


def test_sums_of_rewards_and_fines_judge_where_no_oracle_does(tmp_path):
    found = run(
        tmp_path / "run", environments=[{"name": "kuhn_poker", "illegal": {"rule": "random", "penalty": 0.5}}],
        rewards=[{"name": "format_bonus", "bonus": 1.0, "penalty": 1.0, "weight": 0.5}],
        credit={"name": "vpr", "baseline": "candidates", "process": "format_bonus"}, steps=1,
    )
    for _, episode in found.episodes():
        for turn in episode.turns:
            for one in (turn, *turn.candidates):
                assert one.score == pytest.approx(0.5 * (1.0 if one.event == "ok" else -1.0) - 0.5 * (one.event != "ok"))


def test_candidates_are_shown(tmp_path):
    run(tmp_path / "run", steps=1)
    text = CliRunner().invoke(app, ["show", str(tmp_path / "run"), "--ids"]).output
    told = text.count("    told ")
    assert told and text.count("not played, candidate") == 2 * told
    assert text.count("    score ") == 3 * told


RELEASED = {"name": "vpr", "preset": "as_released", "process": "regret", "skip_above": 1.0}


def weights(path, step):
    return (path / "checkpoints" / f"step_{step:06d}" / "model.safetensors").read_bytes()


def test_as_released_only_prompts_whose_replies_differ_are_trained(tmp_path):
    found = run(tmp_path / "run", credit=RELEASED)
    last = [row for row in figures(tmp_path / "run") if "loss" in row][-1]
    assert last["credit/equal_share"] == pytest.approx(last["candidates/equal_share"])
    assert last["credit/skipped_update"] == 0 and last["logprob_difference_max"] < 1e-4
    rows = found.table("episodes").to_pandas().merge(found.table("credit").to_pandas(), on=["step", "episode_id", "seat", "turn_index", "candidate"])
    groups = rows.groupby(["step", "episode_id", "state_group"])
    equal = groups.score.transform("nunique") == 1
    assert (rows.advantage[equal] == 0).all() and (rows.selected == ~equal).all()
    own = rows[~equal & (rows.step == last["step"])]
    tokens = own.advantage.repeat(own.entropies.map(len))
    assert last["advantage_std"] == pytest.approx(tokens.std(ddof=0), rel=1e-5)  # of what carries loss
    for _, own in rows[~equal].groupby("step"):
        assert own.advantage.mean() == pytest.approx(0, abs=1e-6) and own.advantage.std(ddof=0) == pytest.approx(1, abs=1e-5)


def test_a_step_above_the_share_of_equal_groups_changes_no_weight_and_says_so(tmp_path):
    run(tmp_path / "run", credit={**RELEASED, "skip_above": 0.0})
    lines = [row for row in figures(tmp_path / "run") if "candidates/tokens" in row]
    assert len(lines) == 4 and all(row["credit/skipped_update"] == 1 and "loss" not in row for row in lines)
    assert weights(tmp_path / "run", 2) == weights(tmp_path / "run", 4)


def test_an_oracle_that_abstains_is_counted_and_nothing_is_learnt(tmp_path):
    environment = {"name": "kuhn_poker", "illegal": {"rule": "random"}, "oracle": {"name": "noisy", "oracle": "cfr", "options": {"iterations": 50}}}
    some, none = ({**environment, "oracle": {**environment["oracle"], "abstain": share, "per": "turn"}} for share in (0.5, 1.0))
    run(tmp_path / "none", environments=[none], credit=RELEASED)
    lines = [row for row in figures(tmp_path / "none") if "candidates/tokens" in row]
    for row in lines:
        assert row["candidates/unjudged"] == 1 and row["abstained/regret"] == 1 and row["judged_rate/kuhn_poker"] == 0
        assert row["credit/skipped_update"] == 1 and row["credit/judged_share"] == 0
    assert weights(tmp_path / "none", 2) == weights(tmp_path / "none", 4)
    run(tmp_path / "some", environments=[some], credit=RELEASED, steps=2)
    (line,) = [row for row in figures(tmp_path / "some") if row["step"] == 2]
    assert 0 < line["candidates/unjudged"] < 1 and line["credit/skipped_update"] == 0


class Killed(BaseException):
    """Ends a run as a kill does: nothing catches it."""


@pytest.mark.parametrize("at", [85, 125])
def test_a_run_killed_in_the_middle_of_a_state_group_ends_with_the_same_bytes(tmp_path, monkeypatch, at):
    """The kill comes when the replies to some prompts are there and judged, and none is committed yet."""
    from sparring.play.episode import EpisodeInPlay

    run(tmp_path / "whole", credit=RELEASED)
    commit, left = EpisodeInPlay.commit, {"plays": at}

    def killed(self, scores=(), **more):
        if scores:
            left["plays"] -= 1
            if left["plays"] < 0:
                raise Killed
        return commit(self, scores, **more)

    with monkeypatch.context() as patch:
        patch.setattr(EpisodeInPlay, "commit", killed)
        with pytest.raises(Killed):
            run(tmp_path / "halves", credit=RELEASED)
    sparring.train(config(credit=RELEASED), run=tmp_path / "halves", resume=True)
    for name in ("metrics.jsonl", "checkpoints/step_000004/model.safetensors", "checkpoints/step_000004/optimizer.safetensors"):
        assert (tmp_path / "halves" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_at_grpo_compares_the_replies_to_one_prompt_by_team_and_own_reward(tmp_path):
    own = [{"name": "regret"}, {"name": "format_bonus", "bonus": 0.1, "penalty": 0.1}]
    found = run(tmp_path / "run", rewards=own, credit={"name": "at_grpo", "candidates": True, "team": "regret", "local": "format_bonus"}, steps=1)
    rows = found.table("episodes").to_pandas().merge(found.table("credit").to_pandas(), on=["step", "episode_id", "seat", "turn_index", "candidate"])
    sums = rows.groupby(["step", "episode_id", "state_group"]).advantage.sum()
    assert rows.selected.all() and abs(sums).max() < 1e-5 and (rows.advantage != 0).any()


def test_vine_ppo_learns_and_counts_what_it_samples(tmp_path):
    run(tmp_path / "run", rollout={"games_per_step": 16, "playouts": 2}, rewards=[], reorder_outcomes=False, credit={"name": "vine_ppo"})
    last = [row for row in figures(tmp_path / "run") if "loss" in row][-1]
    assert last["playouts/tokens"] > 0 and last["playouts/failed"] == 0 and last["advantage_std"] == pytest.approx(1, abs=0.05)
    for _, episode in sparring.load_run(tmp_path / "run").episodes():
        assert all(turn.playout is not None and turn.playout_before is not None for turn in episode.turns)
