"""Experiments: what was run on which data, and the reference optima that gaps are measured from."""
