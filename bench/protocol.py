# SPDX-License-Identifier: BSD-3-Clause
"""How a time is taken: the protocols, as docs/tuning.md names them.

On a GPU (sustained, burst): the card lowers its clock under load, so contestants take turns, and
each measures only after it has warmed the card itself. Launches are replayed from CUDA graphs: no
host time is in a number. On the CPU (wall): whole calls, contestants in turn.
"""
import statistics
import time

import torch

LAUNCHES = 20  # in a graph that is replayed back to back


def capture(launch, launches):
    """A CUDA graph of so many launches. The first calls stay outside: they load and allocate."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            launch()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(launches):
            launch()
    return graph


def _timed(work):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    work()
    end.record()
    return begin, end


def _read_ghz():
    """The SM clock now, or None where it cannot be read."""
    try:
        import pynvml
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(torch.cuda.current_device())
        return pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM) / 1000
    except Exception:  # no module, no driver interface, not permitted: all mean unreadable
        return None


def _row(times, clocks):
    ordered = sorted(times)
    at = lambda share: ordered[round(share * (len(ordered) - 1))]
    clocks = [c for c in clocks if c]
    return {"ms": statistics.median(ordered), "ms_p10": at(0.1), "ms_p90": at(0.9),
            "ghz": statistics.median(clocks) if clocks else None}


def sustained(contestants, rounds=3, warm_ms=100, replays=7):
    """{name: launch} -> {name: row}. A round is 100 ms of a contestant, then its timed replays."""
    graphs = {name: capture(launch, LAUNCHES) for name, launch in contestants.items()}
    times, clocks = {name: [] for name in graphs}, {name: [] for name in graphs}
    for _ in range(rounds):
        for name, graph in graphs.items():
            torch.cuda.synchronize()
            stop = time.perf_counter() + warm_ms / 1000
            while time.perf_counter() < stop:
                graph.replay()
                torch.cuda.synchronize()
            pairs = [_timed(graph.replay) for _ in range(replays)]
            clocks[name].append(_read_ghz())
            torch.cuda.synchronize()
            times[name] += [begin.elapsed_time(end) / LAUNCHES for begin, end in pairs]
    return {name: _row(times[name], clocks[name]) for name in graphs}


def burst(contestants, repeats=12, idle_ms=15, spin_cycles=4_000_000):
    """{name: launch} -> {name: row}. After an idle gap one launch, queued behind a device spin of
    about 2 ms, so that the host is far ahead when it starts."""
    graphs = {name: capture(launch, 1) for name, launch in contestants.items()}
    times = {name: [] for name in graphs}
    for _ in range(repeats):
        for name, graph in graphs.items():
            torch.cuda.synchronize()
            time.sleep(idle_ms / 1000)
            torch.cuda._sleep(spin_cycles)
            begin, end = _timed(graph.replay)
            torch.cuda.synchronize()
            times[name].append(begin.elapsed_time(end))
    return {name: _row(times[name], []) for name in graphs}


def wall(contestants, rounds=3, warm_ms=60, repeats=5):
    """{name: call} -> {name: row}. A round is 60 ms, or one call, of a contestant to warm up, then
    its timed calls."""
    times = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, call in contestants.items():
            stop = time.perf_counter() + warm_ms / 1000
            call()
            while time.perf_counter() < stop:
                call()
            for _ in range(repeats):
                begin = time.perf_counter()
                call()
                times[name].append((time.perf_counter() - begin) * 1000)
    return {name: _row(times[name], []) for name in contestants}
