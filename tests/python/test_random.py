# SPDX-License-Identifier: BSD-3-Clause
"""Random problems through the whole package, forward and backward, against the truth in float64."""
import random

import pytest
import torch
from truth import band, close, leaves, spelled_out

import volley

PROBLEMS = 100


def random_view(chance, x):
    """x, as it is or laid out otherwise."""
    kind = chance.randrange(4)
    if kind == 1:
        return x.transpose(1, 2).contiguous().transpose(1, 2)
    if kind == 2:
        return torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape)
    if kind == 3:
        return torch.stack([x, torch.full_like(x, torch.nan)], 1)[:, 0]
    return x


def random_problem(seed):
    chance = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    dtype = chance.choice([torch.float64, torch.float32, torch.float16, torch.bfloat16])

    def normal(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

    b, sq, sk, hk = (chance.randint(1, n) for n in (3, 70, 90, 3))
    hq, d, dv = hk * chance.randint(1, 3), chance.randint(1, 70), chance.randint(1, 70)
    arrays = [random_view(chance, x) for x in
              (normal(b, sq, hq, d), normal(b, sk, hk, d), normal(b, sk, hk, dv))]
    broadcast = [chance.choice([1, n]) for n in (b, hq, sq, sk)]
    options = {}
    if chance.random() < 0.4:
        options["causal"] = True
    if chance.random() < 0.3:
        options["window"] = (chance.randint(-1, 40), chance.randint(-1, 40))
    if chance.random() < 0.2:
        options["mask_offset"] = chance.randint(-30, 30)
    if chance.random() < 0.3:
        options["softcap"] = chance.uniform(0.5, 5)
    if chance.random() < 0.3:
        options["scale"] = chance.uniform(-0.3, 0.5)
    if chance.random() < 0.3:
        options["sink"] = normal(hq)
    if chance.random() < 0.3:
        options["bias"] = normal(*broadcast)
    if chance.random() < 0.3:
        options["mask"] = normal(*broadcast) > -1
    return arrays, options, normal(b, sq, hq, dv), normal(b, hq, sq)


def truth(q, k, v, causal=False, window=(-1, -1), mask_offset=None, mask=None, **others):
    seen = band(q.shape[1], k.shape[1], causal, window, mask_offset)
    return spelled_out(q, k, v, seen if mask is None else seen & mask, **others)


def loss_of(o, lse, do, dlse):
    finite = lse.isfinite()  # a row without keys has lse = -inf, whatever its inputs
    return (o.double() * do.double()).sum() + (lse.double() * dlse.double())[finite].sum()


@pytest.mark.parametrize("block", range(PROBLEMS // 20))
def test_random_problems(block):
    for seed in range(20 * block, 20 * block + 20):
        arrays, options, do, dlse = random_problem(seed)
        try:
            variables = leaves(*arrays)
            for name in ("sink", "bias"):
                if name in options:
                    options[name], = leaves(options[name])
                    variables.append(options[name])
            o, lse = volley.attention(*variables[:3], return_lse=True, **options)
            wanted, wanted_lse = truth(*variables[:3], **options)
            close(o, wanted, factor=2)
            close(lse, wanted_lse, torch.bfloat16 if o.dtype.itemsize == 2 else torch.float32)
            found = torch.autograd.grad(loss_of(o, lse, do, dlse), variables)
            exact = torch.autograd.grad(loss_of(wanted, wanted_lse, do, dlse), variables)
            for x, y in zip(found, exact):
                scale = max(1.0, y.double().abs().max().item())
                close(x / scale, y / scale, factor=8)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {options}") from error
