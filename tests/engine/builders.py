"""Helpers for tests of engines and learners: the episodes of a step, and the weights as one vector."""

import torch

from sparring.league.seating import step_specs


def specs_of(engine, step=0):
    config = engine.config
    matchmaker = config.matchmaker.bind("league.matchmakers")
    return step_specs(
        step,
        games=engine.environments,
        rollout=config.rollout,
        matchmaker=matchmaker,
        members=(),
        root=engine.root,
        progress=0.0,
    )


def episodes_of(engine, step=0):
    return engine.play(specs_of(engine, step)).episodes


def weights(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
