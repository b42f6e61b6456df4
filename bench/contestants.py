# SPDX-License-Identifier: BSD-3-Clause
"""Who takes part in bench/compare.py: Volley through its C ABI, and its peers on Hopper.

A contestant is a launch: it enqueues one forward or one backward on torch's current stream and
returns the outputs, o or dq, dk, dv, each (batch, tokens, heads, head dim). Peers that are not
installed are absent; one that does not offer a cell fails when it is made or first called, and the
record says so.
"""
import importlib.metadata
import math

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import record as records
import volley_abi

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
CODES = {torch.bfloat16: volley_abi.BF16, torch.float16: volley_abi.F16,
         torch.float32: volley_abi.F32}


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
        return (o,)

    launch.keep = (q, k, v)  # the plan has addresses only
    return launch


def volley_backward(library, backend, q, k, v, dout, causal):
    """Of o and LSE by the same backend's forward."""
    o, (b, s, h, _) = torch.empty_like(dout), q.shape
    lse = torch.empty((b, h, s), dtype=torch.float32, device=q.device)
    tensors = {"q": q, "k": k, "v": v, "o": o, "lse": lse}
    options = {"backend": backend, "causal": int(causal)}
    forward = library.plan(*(view(x) for x in tensors.values()), **options)
    workspace = torch.empty(forward.workspace_size, dtype=torch.uint8, device=q.device)
    forward.run(workspace.data_ptr(), torch.cuda.current_stream().cuda_stream)
    gradients = {f"d{name}": torch.full_like(tensors[name], math.nan) for name in "qkv"}
    views = {name: view(x) for name, x in {**tensors, **gradients, "dout": dout}.items()}
    plan = library.plan_backward(views, **options)
    workspace = torch.empty(plan.workspace_size, dtype=torch.uint8, device=q.device)

    def launch():
        plan.run(workspace.data_ptr(), torch.cuda.current_stream().cuda_stream)
        return tuple(gradients.values())

    launch.keep = (tensors, dout)
    return launch


def one_element_off(x):
    """The same values at an address that no vector can be read from."""
    moved = torch.empty(x.numel() + 1, dtype=x.dtype, device=x.device)[1:].view(x.shape)
    return moved.copy_(x)


def of_torch(backend, q, k, v, causal):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # views: SDPA wants heads first

    def launch():
        with sdpa_kernel(backend):
            return (F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2),)

    return launch


def flash_backward(q, k, v, dout, causal):
    """torch's own operator: autograd would add host time, and a stream of its own."""
    q, k, v, dout = (x.transpose(1, 2) for x in (q, k, v, dout))
    o, lse, cu_q, cu_k, max_q, max_k, seed, offset, _ = \
        torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False)

    def launch():
        gradients = torch.ops.aten._scaled_dot_product_flash_attention_backward(
            dout, q, k, v, o, lse, cu_q, cu_k, max_q, max_k, 0.0, causal, seed, offset)
        return tuple(x.transpose(1, 2) for x in gradients)

    return launch


def cudnn_backward(q, k, v, dout, causal):
    q, k, v, dout = (x.transpose(1, 2) for x in (q, k, v, dout))
    o, lse, cu_q, cu_k, max_q, max_k, seed, offset, _ = \
        torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal, False)

    def launch():
        gradients = torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
            dout, q, k, v, o, lse, seed, offset, None, cu_q, cu_k, max_q, max_k, 0.0, causal)
        return tuple(x.transpose(1, 2) for x in gradients)

    return launch


def of_package(module, q, k, v, causal):
    def launch():
        o = module.flash_attn_func(q, k, v, causal=causal)
        return (o[0] if isinstance(o, tuple) else o,)

    return launch


def each(change):
    """What makes a maker take changed tensors."""
    return lambda make: lambda *inputs: make(*(change(x) for x in inputs[:-1]), inputs[-1])


def as_if(a, b):
    """The same values, strided as a contiguous tensor is whose axes a and b are then exchanged."""
    return lambda x: x.transpose(a, b).contiguous().transpose(a, b)


def slices_of_one(make):
    """q, k and v are slices of one tensor, as one product makes them."""
    return lambda q, k, v, *rest: make(*torch.stack((q, k, v), 2).unbind(2), *rest)


# Other layouts of the same values, by the names that rows have. sm80 reads bhsd and qkv in place,
# and first copies what has a base one element off, or elements of a row that are not neighbours.
LAYOUTS = dict(zip(records.LAYOUTS, (each(one_element_off), each(as_if(1, 2)), slices_of_one,
                                     each(as_if(1, 3))), strict=True))


def v2_and_its_layouts(make):
    return {"volley_v2": make} | {f"volley_v2/{name}": change(make)
                                  for name, change in LAYOUTS.items()}


# {name: maker} of the forward's contestants and the backward's: a maker takes the cell's tensors
# and whether it is causal, and gives a launch. A name is a row's impl, or impl/variant.

def forward(library, dtype, wanted):
    """fa3-fwd takes bf16 alone."""
    all_of_them = {
        "volley": lambda *inputs: volley(library, "sm90", *inputs),
        **v2_and_its_layouts(lambda *inputs: volley(library, "sm80", *inputs)),
        "fa3": (lambda *inputs: of_package(fa3, *inputs)) if fa3 and dtype == "bf16" else None,
        "fa4": (lambda *inputs: of_package(fa4, *inputs)) if fa4 else None,
        "cudnn": lambda *inputs: of_torch(SDPBackend.CUDNN_ATTENTION, *inputs),
        "fa2": lambda *inputs: of_torch(SDPBackend.FLASH_ATTENTION, *inputs)}
    return {name: make for name, make in all_of_them.items()
            if make is not None and name in ("volley", *wanted)}


def backward(library, _, wanted):
    all_of_them = {
        **v2_and_its_layouts(lambda *inputs: volley_backward(library, "sm80", *inputs)),
        "cudnn": cudnn_backward, "fa2": flash_backward}
    return {name: make for name, make in all_of_them.items() if name in wanted}


def versions():
    cudnn = torch.backends.cudnn.version()  # 91900 is 9.19.0
    found = {"cudnn": f"{cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}",
             "fa2": "torch SDPA flash"}
    for name, module, package in (("fa3", fa3, "fa3-fwd"), ("fa4", fa4, "flash-attn-4")):
        if module is not None:
            found[name] = f"{package} {importlib.metadata.version(package)}"
    return found
