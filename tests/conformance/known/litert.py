"""What LiteRT cannot do yet."""

_ONE_SIZE = ("notyet", "its converter knows free extents of few operators only")
KNOWN = {
    "test_beyond_the_bound_is_right_or_an_error_of_ours": _ONE_SIZE,
    "test_takes_any_batch_up_to_the_bound": _ONE_SIZE,
}
