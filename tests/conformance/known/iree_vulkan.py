"""What IREE's Vulkan compiler cannot do yet."""

MODELS = {"decoder": ("fails", "its SPIR-V has no vector.from_elements of 64-bit integers")}
