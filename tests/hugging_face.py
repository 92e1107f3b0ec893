"""Networks of the package transformers, which compute expected values for our networks."""

from sparring.models.tiny import TinyNetwork


def hugging_face(network):
    """Return a network of transformers. For a tiny network, return a GPT-2 that has the tiny network's parameters."""
    if not isinstance(network, TinyNetwork):
        return network
    model = network.to_transformers()
    for name, parameter in network.named_parameters():
        module_name, _, parameter_name = name.rpartition(".")
        setattr(model.get_submodule(module_name), parameter_name, parameter)
    model.tie_weights()
    return model
