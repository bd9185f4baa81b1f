"""A fake of vLLM: kernels/providers/torch_child.py must find this package and must not import it."""
raise ImportError("the child imported vllm; its kernels are to be loaded without vLLM's Python")
