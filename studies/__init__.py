"""Studies: the experiments behind the pages; each folder has one study and its results."""
