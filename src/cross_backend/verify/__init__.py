"""Verify: whether outputs are right: the sample, its two inputs, each element's scale, the deviation, the verdict."""
