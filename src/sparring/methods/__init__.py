"""The catalogue of methods: credit, losses, columns, rewards, oracles, selection and others."""
