# SPDX-License-Identifier: BSD-3-Clause
"""Gradients of PyTorch tensors: a few steps of gradient descent, through attention with a learned
sink, on the task of copying the previous token. Needs PyTorch.

Next: plan.py, what runs and why.
"""
import torch

import volley

torch.manual_seed(0)
b, s, h, d = 8, 16, 2, 16
place = torch.randn(s, d)  # what a position looks like
token = torch.randn(b, s, d)
wanted = token.roll(1, dims=1)[:, 1:]
to_q, to_k, to_v = [torch.nn.Linear(d, h * d, bias=False) for _ in range(3)]
to_o = torch.nn.Linear(h * d, d, bias=False)
sink = torch.nn.Parameter(torch.zeros(h))
optimizer = torch.optim.Adam([sink, *to_q.parameters(), *to_k.parameters(), *to_v.parameters(),
                              *to_o.parameters()], lr=0.02)

losses = []
for step in range(61):
    q, k = [to(place.expand(b, s, d)).view(b, s, h, d) for to in (to_q, to_k)]
    v = to_v(token).view(b, s, h, d)
    o = volley.attention(q, k, v, causal=True, sink=sink)
    loss = (to_o(o.flatten(2))[:, 1:] - wanted).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if step % 15 == 0:
        print(f"step {step:3}: loss {loss.item():.4f}, sink {sink[0]:.3f} and {sink[1]:.3f}")
assert losses[-1] < losses[0] / 5
