"""Generation: text token by token on several targets, interleaved by whole sequences, ranked for prefill and decode."""
