"""Tests of the studies: `make studies`."""
