"""What llama.cpp cannot take: it runs decoders of known shapes only."""

_NO_DECODER = ("never", "it runs decoders, and this model is none")
MODELS = dict.fromkeys(("cnn", "corners", "counter", "dynamic", "mlp", "multi", "ring"), _NO_DECODER)
KNOWN = {"test_leaves_the_callers_program_as_it_was": _NO_DECODER}
