# SPDX-License-Identifier: BSD-3-Clause
"""Who takes part in bench/compare.py: Volley through its C ABI, and its peers on Hopper.

A contestant is a launch: it enqueues one forward on torch's current stream and returns the output,
(batch, tokens, heads, head dim). Peers that are not installed are absent; one that does not offer a
cell fails when it is made or first called, and the record says so.
"""
import importlib.metadata
import math

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import volley_abi

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
CODES = {torch.bfloat16: volley_abi.BF16, torch.float16: volley_abi.F16}


def _module(name):
    try:
        return __import__(name, fromlist=["flash_attn_func"])
    except Exception:  # absent, or present and broken: a peer must not stop the others
        return None


fa3 = _module("fa3_fwd_interface")
fa4 = _module("flash_attn.cute")


def view(x):
    return volley_abi.tensor(x.data_ptr(), CODES[x.dtype], x.shape, x.stride(), volley_abi.CUDA,
                             x.device.index)


def volley(library, backend, q, k, v, causal):
    """A capture has a stream of its own, so the launch asks for torch's each time."""
    o = torch.full_like(q, math.nan)
    plan = library.plan(*(view(x) for x in (q, k, v, o)), backend=backend, causal=int(causal))
    workspace = torch.empty(plan.workspace_size, dtype=torch.uint8, device=q.device)

    def launch():
        plan.run(workspace.data_ptr(), torch.cuda.current_stream().cuda_stream)
        return o

    return launch


def one_element_off(x):
    """The same values at an address that no vector can be read from."""
    moved = torch.empty(x.numel() + 1, dtype=x.dtype, device=x.device)[1:].view(x.shape)
    return moved.copy_(x)


def of_torch(backend, q, k, v, causal):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # views: SDPA wants heads first

    def launch():
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)

    return launch


def of_package(module, q, k, v, causal):
    def launch():
        o = module.flash_attn_func(q, k, v, causal=causal)
        return o[0] if isinstance(o, tuple) else o

    return launch


def makers(library, dtype, wanted):
    """{name: maker}: maker(q, k, v, causal) gives a launch. A name is a row's impl, or
    impl/variant. fa3-fwd takes bf16 alone."""
    def v2_misaligned(q, k, v, causal):
        return volley(library, "sm80", *(one_element_off(x) for x in (q, k, v)), causal)

    all_of_them = {
        "volley": lambda *inputs: volley(library, "sm90", *inputs),
        "volley_v2": lambda *inputs: volley(library, "sm80", *inputs),
        "volley_v2/misaligned": v2_misaligned,
        "fa3": (lambda *inputs: of_package(fa3, *inputs)) if fa3 and dtype == "bf16" else None,
        "fa4": (lambda *inputs: of_package(fa4, *inputs)) if fa4 else None,
        "cudnn": lambda *inputs: of_torch(SDPBackend.CUDNN_ATTENTION, *inputs),
        "fa2": lambda *inputs: of_torch(SDPBackend.FLASH_ATTENTION, *inputs)}
    return {name: make for name, make in all_of_them.items()
            if make is not None and (name == "volley" or name.split("/")[0] in wanted)}


def versions():
    cudnn = torch.backends.cudnn.version()  # 91900 is 9.19.0
    found = {"cudnn": f"{cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}",
             "fa2": "torch SDPA flash"}
    for name, module, package in (("fa3", fa3, "fa3-fwd"), ("fa4", fa4, "flash-attn-4")):
        if module is not None:
            found[name] = f"{package} {importlib.metadata.version(package)}"
    return found
