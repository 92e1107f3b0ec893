"""Studies: the experiments behind the pages, a folder each, with the figures that they gave."""
