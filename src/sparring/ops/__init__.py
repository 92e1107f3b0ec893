"""Mathematics in numpy and scipy: game trees, equilibria, returns, groups, statistics."""
