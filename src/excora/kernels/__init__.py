"""Hand-written autograd under the pools: the formulas, the passes over the elements, and the call ``attend``."""
