"""The command ``bundle``, and ``inspect`` and ``run`` on what it wrote."""
