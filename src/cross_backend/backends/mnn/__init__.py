"""MNN: Alibaba's engine for phones; its Python package holds the processor's part alone."""
