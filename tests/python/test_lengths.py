# SPDX-License-Identifier: BSD-3-Clause
"""Packed sequences, used lengths, pages and merged parts: what is unused is NaN."""
import pytest
import torch
from truth import band, close, qkv, spelled_out, tensors

import volley

NAN = float("nan")


def int32(*values):
    return torch.tensor(values, dtype=torch.int32)


def test_packed_sequences_with_rows_that_belong_to_none():
    q, k, v = tensors((15, 4, 32), (20, 2, 32), (20, 2, 32))
    for x, used in ((q, 12), (k, 18), (v, 18)):
        x[used:] = NAN
    cu_q, cu_k = int32(0, 5, 5, 12), int32(0, 9, 13, 18)
    o, lse = volley.attention_varlen(q, k, v, cu_q, cu_k, 7, 9, causal=True, return_lse=True)
    assert lse.shape == (4, 15)
    for rows, keys in ((slice(0, 5), slice(0, 9)), (slice(5, 12), slice(13, 18))):
        seen = band(rows.stop - rows.start, keys.stop - keys.start, True)
        wanted, wanted_lse = spelled_out(q[None, rows], k[None, keys], v[None, keys], seen)
        close(o[rows], wanted[0])
        close(lse[:, rows], wanted_lse[0])
    assert (o[12:] == 0).all() and (lse[:, 12:] == -torch.inf).all()


def test_packed_queries_over_dense_keys():
    q, k, v = tensors((7, 4, 32), (2, 11, 2, 32), (2, 11, 2, 32))
    o = volley.attention_varlen(q, k, v, int32(0, 3, 7), None)
    for n, rows in enumerate((slice(0, 3), slice(3, 7))):
        close(o[rows], spelled_out(q[None, rows], k[n:n + 1], v[n:n + 1])[0][0])


def test_used_lengths():
    q, k, v = qkv(sq=1)
    k[0, 20:], v[0, 20:] = NAN, NAN
    o = volley.attention(q, k, v, seqused_k=int32(20, 53), causal=True)
    close(o[0], spelled_out(q[:1], k[:1, :20], v[:1, :20])[0][0])
    close(o[1], spelled_out(q[1:], k[1:], v[1:])[0][0])


@pytest.mark.parametrize("page", [1, 4, 7])
@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_pages(page, layout):
    q, k, v = qkv(sq=3, sk=28)
    used = int32(28, 13)
    pages = 28 // page
    table = torch.full((2, pages), 999, dtype=torch.int32)  # entries past the end are never read
    order = torch.randperm(2 * pages, generator=torch.Generator().manual_seed(1))
    store_k = torch.full((2 * pages, page, 2, 32), NAN)
    store_v = torch.full((2 * pages, page, 2, 32), NAN)
    for n in range(2):
        for j in range(int(used[n])):
            table[n, j // page] = order[n * pages + j // page]
            store_k[table[n, j // page], j % page] = k[n, j]
            store_v[table[n, j // page], j % page] = v[n, j]
    given = (q, store_k, store_v)
    if layout == "bhsd":
        given = [x.transpose(1, 2) for x in given]
    o = volley.attention(*given, layout=layout, page_table=table, seqused_k=used, causal=True)
    o = o.transpose(1, 2) if layout == "bhsd" else o
    for n in range(2):
        keys = slice(0, int(used[n]))
        seen = band(3, keys.stop, True)
        close(o[n], spelled_out(q[n:n + 1], k[n:n + 1, keys], v[n:n + 1, keys], seen)[0][0])


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_parts_merge_into_the_whole(layout):
    q, k, v = qkv(sq=64, sk=300, hq=2, hk=1, d=64)
    sink, = tensors((2,), seed=1)

    def swap(x):
        return x.transpose(-3, -2) if layout == "bhsd" else x

    ranges = (slice(0, 100), slice(100, 300), slice(0, 0))  # the last is empty: lse = -inf
    parts = [volley.attention(swap(q), swap(k[:, keys]), swap(v[:, keys]), layout=layout,
                              return_lse=True) for keys in ranges]
    o_parts = torch.stack([o for o, _ in parts])
    o_parts[2] = NAN
    lse_parts = torch.stack([lse for _, lse in parts])
    o, lse = volley.combine(o_parts, lse_parts, sink=sink, layout=layout)
    wanted, wanted_lse = spelled_out(q, k, v, sink=sink)
    close(swap(o), wanted)
    close(lse, wanted_lse)
    out = torch.full_like(o, NAN)
    assert volley.combine(o_parts, lse_parts, sink=sink, layout=layout, out=out)[0] is out
    assert torch.equal(out, o)


def test_packed_parts_merge():
    q, k, v = tensors((9, 4, 32), (14, 2, 32), (14, 2, 32))
    cu_q = int32(0, 9)
    whole, whole_lse = volley.attention_varlen(q, k, v, cu_q, int32(0, 14), return_lse=True)
    parts = [volley.attention_varlen(q, k[keys], v[keys], cu_q, int32(0, 7), return_lse=True)
             for keys in (slice(0, 7), slice(7, 14))]
    o, lse = volley.combine(*[torch.stack(x) for x in zip(*parts)])
    close(o, whole)
    close(lse, whole_lse)
