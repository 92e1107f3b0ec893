"""A network's own forward pass, by transformers: what ours is compared with."""

from sparring.models.tiny import TinyNetwork


def hugging_face(network):
    """Return a network that transformers computes; of a tiny one a GPT-2 that shares its parameters, so that gradients reach them."""
    if not isinstance(network, TinyNetwork):
        return network
    model = network.to_transformers()
    for name, parameter in network.named_parameters():
        place, _, last = name.rpartition(".")
        setattr(model.get_submodule(place), last, parameter)
    model.tie_weights()
    return model
