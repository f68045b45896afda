"""What ncnn cannot do yet."""

MODELS = {
    "corners": ("notyet", "ncnn's tensors have one dimension at least, and only floats are told apart at the end"),
    "decoder": ("notyet", "pnnx leaves comparisons, indices and writes of an index as they are"),
    "multi": ("notyet", "pnnx has no argmax, and a tensor of ncnn's does not say whether it holds whole numbers"),
}
_ONE_SIZE = ("notyet", "pnnx reads a trace, which holds one size of every tensor")
KNOWN = {
    "test_beyond_the_bound_is_right_or_an_error_of_ours": _ONE_SIZE,
    "test_takes_any_batch_up_to_the_bound": _ONE_SIZE,
}
