"""What Atalla's delegate cannot do yet."""

_ONE_SIZE = ("notimpl", "a delegated blob holds one size of every tensor")
KNOWN = {
    "test_beyond_the_bound_is_right_or_an_error_of_ours": _ONE_SIZE,
    "test_takes_any_batch_up_to_the_bound": _ONE_SIZE,
}
