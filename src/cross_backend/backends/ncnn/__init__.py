"""ncnn: Tencent's engine for phones, on processors and through Vulkan; its converter is pnnx."""
