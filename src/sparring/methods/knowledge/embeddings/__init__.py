"""Embeddings: texts as vectors, so that statements which mean the same are near each other."""
