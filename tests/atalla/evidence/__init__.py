"""Evidence: PyTorch's own samples of its operators, run by Atalla and by eager; what each overload became of it.

``python -m tests.atalla.evidence`` writes ``evidence.json``, which docs/atalla/operators.md shows.
"""
