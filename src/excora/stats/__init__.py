"""Statistics of predictions, in numpy: correlation, scores, intervals. An unknown label is NaN, and left out."""
