# SPDX-License-Identifier: BSD-3-Clause
"""How a time is taken: the protocols, as docs/tuning.md names them.

On a GPU (sustained, burst): the card lowers its clock under load, so contestants take turns, and
each measures only after it has warmed the card itself. Launches are replayed from CUDA graphs: no
host time is in a number. On the CPU (wall): whole calls, contestants in turn.
"""
import ctypes
import functools
import math
import statistics
import time

import torch


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


@functools.cache
def _clock_reader():
    """A function that reads the SM clock in MHz from the driver's monitoring library, or None."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        device, mhz = ctypes.c_void_p(), ctypes.c_uint()
        bus = ctypes.create_string_buffer(32)
        cuda = ctypes.CDLL("libcuda.so.1")
        sm_clock = 1
        if (cuda.cuDeviceGetPCIBusId(bus, len(bus), torch.cuda.current_device()) or
                nvml.nvmlInit_v2() or
                nvml.nvmlDeviceGetHandleByPciBusId_v2(bus, ctypes.byref(device))):
            return None
    except (OSError, AttributeError):
        return None

    def read():
        failed = nvml.nvmlDeviceGetClockInfo(device, sm_clock, ctypes.byref(mhz))
        return None if failed else mhz.value

    return read


def _read_ghz():
    """The SM clock now, or None where it cannot be read."""
    read = _clock_reader()
    mhz = read() if read is not None else None
    return mhz / 1000 if mhz else None


def _row(times, clocks):
    ordered = sorted(times)
    at = lambda share: ordered[round(share * (len(ordered) - 1))]
    clocks = [c for c in clocks if c]
    return {"ms": statistics.median(ordered), "ms_p10": at(0.1), "ms_p90": at(0.9),
            "ghz": statistics.median(clocks) if clocks else None}


def _in_turn(names, round_number):
    """All of them, each round from another one on: nobody always follows the same one."""
    names = list(names)
    at = round_number % max(len(names), 1)
    return names[at:] + names[:at]


def sustained(contestants, launches=20, rounds=3, warm_ms=100, replays=7, timed_ms=25):
    """{name: launch} -> {name: row}. A round is 100 ms of a contestant, then timed replays of a
    graph of so many launches: at least 7, more where they are short."""
    graphs = {name: capture(launch, launches) for name, launch in contestants.items()}
    times, clocks = {name: [] for name in graphs}, {name: [] for name in graphs}
    for round_number in range(rounds):
        for name in _in_turn(graphs, round_number):
            graph = graphs[name]
            torch.cuda.synchronize()
            begin, warmed = time.perf_counter(), 0
            while time.perf_counter() < begin + warm_ms / 1000:
                graph.replay()
                torch.cuda.synchronize()
                warmed += 1
            enough = math.ceil(timed_ms / (warm_ms / warmed))
            pairs = [_timed(graph.replay) for _ in range(max(replays, enough))]
            clocks[name].append(_read_ghz())
            torch.cuda.synchronize()
            times[name] += [begin.elapsed_time(end) / launches for begin, end in pairs]
    return {name: _row(times[name], clocks[name]) for name in graphs}


def burst(contestants, repeats=12, idle_ms=15, spin_cycles=4_000_000):
    """{name: launch} -> {name: row}. After an idle gap one launch, queued behind a device spin of
    about 2 ms, so that the host is far ahead when it starts."""
    graphs = {name: capture(launch, 1) for name, launch in contestants.items()}
    times = {name: [] for name in graphs}
    for repeat in range(repeats):
        for name in _in_turn(graphs, repeat):
            graph = graphs[name]
            torch.cuda.synchronize()
            time.sleep(idle_ms / 1000)
            torch.cuda._sleep(spin_cycles)
            begin, end = _timed(graph.replay)
            torch.cuda.synchronize()
            times[name].append(begin.elapsed_time(end))
    return {name: _row(times[name], []) for name in graphs}


def wall(contestants, rounds=3, warm_ms=60, repeats=5, timed_ms=200):
    """{name: call} -> {name: row}. A round is 60 ms, or one call, of a contestant to warm up, then
    timed calls: 5, and as many as 200 ms take, so that a short call is not one moment's luck."""
    times = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, call in contestants.items():
            stop = time.perf_counter() + warm_ms / 1000
            call()
            while time.perf_counter() < stop:
                call()
            round_times = []
            while len(round_times) < repeats or sum(round_times) < timed_ms:
                begin = time.perf_counter()
                call()
                round_times.append((time.perf_counter() - begin) * 1000)
            times[name] += round_times
    return {name: _row(times[name], []) for name in contestants}
