# SPDX-License-Identifier: Apache-2.0
"""Who is compared. An adapter has a `name`, says in `missing(device)` why it cannot run at all, and `prepare(problem)` returns
(calls, out): a function for each set of operands, which returns what it wrote, or raises Skip with the reason."""
import importlib.util

from . import flashinfer_peer, fovea_peer, sdpa

ADAPTERS = [*fovea_peer.ADAPTERS, *sdpa.ADAPTERS, *flashinfer_peer.ADAPTERS]

# name, module, why there is no adapter even where the module is installed
OTHERS = [
    ("FlashAttention-3", "flash_attn_interface", "no adapter: PyPI has no wheel of it to run one with"),
    ("FlashAttention-4", "flash_attn.cute", "no adapter yet"),
    ("FlashInfer trtllm-gen", "flashinfer", "its kernels are for sm_100 and later"),
    ("xFormers", "xformers", "no adapter yet"),
    ("vLLM's Triton kernels", "vllm", "no adapter yet"),
    ("llama.cpp", "llama_cpp", "compared on the CPU by cpu_attention.py and model_llama_cpp.py"),
    ("flash-linear-attention", "fla", "Fovea has no linear attention yet"),
    ("cuLA", "cula", "Fovea has no linear attention yet"),
    ("FlashKDA", "flash_kda", "Fovea has no linear attention yet"),
    ("TurboQuant of PyPI", "turboquant", "Fovea has no turbo formats yet"),
]


def installed(module):
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def others(find=installed):
    """name -> why it is left out"""
    return {name: reason if find(module) else f"not installed; {reason}" for name, module, reason in OTHERS}
