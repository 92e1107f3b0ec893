"""Code that touches the models of a run, in this process, on workers or on ranks."""
