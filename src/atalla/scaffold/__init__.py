"""Scaffold: the package of a chip of somebody else, which ``atalla new`` writes from the one in ``template``."""
