"""The tables of the studies that `sparring reproduce` runs, each from its results file."""

from functools import partial

from measured import results

from sparring.report.reproduce import demo_seeds, mars, vpr_general, vpr_methods, vpr_noise, vpr_table

FILES = {
    "ablations": mars,
    "seeds": demo_seeds,
    "vpr-general": vpr_general,
    "vpr-methods": vpr_methods,
    "vpr-noise": vpr_noise,
    "vpr_table": vpr_table,
}


def filled(make, name):
    """Return a table or a figure of benchmarks/results/NAME.json."""
    return make(results(name))


MADE = {
    marker: partial(filled, make, name)
    for name, module in FILES.items()
    for marker, make in module.MADE.items()
}
