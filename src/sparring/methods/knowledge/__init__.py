"""Knowledge plug-ins: state of a run without gradients that scores replies."""
