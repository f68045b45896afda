"""Trust: a file of a stranger runs nothing, ours needs no pickle, and what is code is opened only if it is trusted."""
