# SPDX-License-Identifier: BSD-3-Clause
"""The package in a process: what an import costs, memory, threads, fork, the command."""
import gc
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from truth import qkv

import volley

def python(code, *options):
    return subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True,
                          check=True, timeout=120).stdout

def test_import_needs_numpy_only():
    found = python("import sys, volley; print(*sys.modules)").split()
    assert "numpy" in found and "torch" not in found and "ml_dtypes" not in found

def test_import_is_fast():
    """In seconds of the processor: the machine may be busy with other things."""
    code = "import time; begin = time.process_time(); import volley; " \
           "print(time.process_time() - begin)"
    assert min(float(python(code)) for _ in range(4)) < 0.3
    assert min(float(python("import numpy; " + code)) for _ in range(4)) < 0.1

def resident():
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()

@pytest.mark.parametrize("kind", ["numpy", "torch", "gradients", "errors"])
def test_memory_does_not_grow(kind):
    q, k, v = qkv(sq=64, sk=64)
    arrays = [x.numpy() for x in (q, k, v)]

    def call():
        if kind == "numpy":
            volley.attention(*arrays, causal=True, return_lse=True)
        elif kind == "torch":
            volley.attention(q, k, v, causal=True)
        elif kind == "gradients":
            x = q[:, :3].clone().requires_grad_()
            volley.attention(x, k, v).sum().backward()
        else:
            with pytest.raises(ValueError):
                volley.attention(*arrays, softcap=-1)

    for _ in range(200):
        call()
    before = resident()
    for _ in range(2000):
        call()
    assert resident() - before < 1 << 20  # a leak of one output would be 130 MB, of a plan 1 MB

def test_results_do_not_keep_inputs():
    array = np.ones((1, 8, 2, 16), np.float32)
    before = sys.getrefcount(array)
    o = volley.attention(array, array, array)
    assert sys.getrefcount(array) == before and sys.getrefcount(o) == 2

@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_eight_threads_at_once(kind):
    problems = [qkv(sq=30 + n, sk=50 + n, seed=n) for n in range(8)]
    if kind == "numpy":
        problems = [[x.numpy() for x in problem] for problem in problems]
    wanted = [volley.attention(*problem, causal=True) for problem in problems]
    failures = []

    def work(n):
        for _ in range(50):
            if not (volley.attention(*problems[n], causal=True) == wanted[n]).all():
                failures.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures

def test_the_interpreter_runs_during_a_call():
    q = np.ones((1, 3000, 2, 64), np.float32)
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(0)
            done.wait(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    volley.attention(q, q, q, backend="cpu")
    seen = len(ticks)
    done.set()
    thread.join()
    assert seen > 3

def test_fork_after_use():
    said = python("""
import os, numpy as np, volley
q = np.random.default_rng(0).standard_normal((2, 200, 4, 32), np.float32)
wanted = volley.attention(q, q, q)
child = os.fork()
same = (volley.attention(q, q, q) == wanted).all()
if child == 0:
    os._exit(0 if same else 1)
print(same, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")
    assert said.split() == ["True", "0"]

def test_the_command():
    begin = [sys.executable, "-m", "volley"]
    if "LIBVOLLEY" in os.environ:
        pytest.skip("not installed from a wheel")
    said = subprocess.run([*begin, "doctor"], capture_output=True, text=True, check=True).stdout
    assert said == volley.doctor()
    plan = subprocess.run([*begin, "plan", "--sq", "128", "--device", "h200"], capture_output=True,
                          text=True, check=True).stdout
    assert "sm90" in plan
    wrong = subprocess.run([*begin, "plan", "--no-such"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "--no-such" in wrong.stderr

def test_pytorch_is_not_needed_for_numpy():
    said = python("""
import sys
sys.modules["torch"] = None  # an import would fail
import numpy as np, volley
print(volley.attention(*[np.ones((1, 2, 1, 8), np.float32)] * 3).sum())
""")
    assert float(said) == 16
