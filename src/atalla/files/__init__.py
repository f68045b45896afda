"""Files of others, read as data: archives, and PyTorch's exported programs in them."""
