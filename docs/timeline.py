#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws docs/timeline.svg, the picture of docs/forward.md: what a CTA's warps do when.

    docs/timeline.py            writes it
    docs/timeline.py --check    changes nothing, exits 1 when it is not what this writes

The picture is simulated, not measured. The roles below follow src/cuda/sm90/load.cuh and
consume.cuh step by step; they wait for each other as the barriers of smem.cuh make them, and the
tensor cores take products in the order of their issue. Durations are d = 128's with blocks of 128
keys: products by their number of operations, the rest about as long as it is.
"""
import sys
from pathlib import Path

PATH = Path(__file__).resolve().parent / "timeline.svg"
PRODUCT, SOFTMAX, CONVERT, STORE, LOAD = 512, 880, 120, 420, 430  # cycles
STAGES, SLOTS = 2, 2
# Blocks that each warpgroup needs of a tile; of B, the last lies above warpgroup 0's diagonal.
TILES = [("A", (2, 2)), ("B", (2, 3)), ("C", (2, 2))]


class Machine:
    """Time, the boxes to draw, and what the barriers count."""

    def __init__(self):
        self.now, self.tensor_free, self.turn = 0, 0, 0
        self.boxes = []  # (lane, begin, end, label, tile)
        self.full = {name: 0 for name in "qkv"}  # loads that have arrived
        self.empty = {name: [0, 0] for name in "qkv"}  # released, by warpgroup

    def box(self, lane, duration, label, begin=None):
        begin = self.now if begin is None else begin
        self.boxes.append((lane, begin, begin + duration, label, label.split()[-1][0]))
        return begin + duration

    def product(self, warpgroup, label):
        """Issued now; the end of it."""
        begin = max(self.now, self.tensor_free)
        self.tensor_free = self.box(f"tensor {warpgroup}", PRODUCT, label, begin)
        return self.tensor_free


def run(machine, roles):
    """Roles are generators. They yield cycles to let pass, or a condition to wait for."""
    waiting = {role: 0 for role in roles}  # a time or a condition
    while waiting:
        ready = [role for role, what in waiting.items()
                 if (what() if callable(what) else what <= machine.now)]
        for role in ready:
            try:
                what = next(role)
                waiting[role] = what if callable(what) else machine.now + what
            except StopIteration:
                del waiting[role]
        if not ready:
            machine.now = min(w for w in waiting.values() if not callable(w))


def producer(machine):
    """load.cuh, Producer::stream with two Q slots. Copies arrive one after the other."""
    loaded = {name: 0 for name in "qkv"}
    slots = {"q": SLOTS, "k": STAGES, "v": STAGES}

    def load(name, label):
        free = loaded[name] - slots[name] + 1  # uses that must be over
        yield lambda: min(machine.empty[name]) >= free
        loaded[name] += 1
        machine.box("loads", LOAD, f"{name.upper()} {label}")
        yield LOAD
        machine.full[name] += 1

    yield from load("q", TILES[0][0])
    yield from load("k", TILES[0][0] + "0")
    for number, (tile, needed) in enumerate(TILES):
        following = TILES[number + 1][0] if number + 1 < len(TILES) else None
        for block in range(1, max(needed)):
            yield from load("k", f"{tile}{block}")
            yield from load("v", f"{tile}{block - 1}")
            if block == 1 and following:
                yield from load("q", following)
        if following:
            yield from load("k", following + "0")
        yield from load("v", f"{tile}{max(needed) - 1}")


class Consumer:
    """consume.cuh, Consumer::run_overlapped."""

    def __init__(self, machine, warpgroup):
        self.machine, self.warpgroup = machine, warpgroup
        self.turns, self.lane = 0, f"cores {warpgroup}"

    def arrived(self, name):
        count = self.machine.empty[name][self.warpgroup] + 1
        return lambda: self.machine.full[name] >= count

    def release(self, name):
        self.machine.empty[name][self.warpgroup] += 1

    def take(self):
        mine = 2 * self.turns + self.warpgroup
        self.turns += 1
        return lambda: self.machine.turn >= mine

    def give(self):
        self.machine.turn += 1

    def work(self, duration, label):
        self.machine.box(self.lane, duration, label)
        return duration

    def until(self, end):
        return max(0, end - self.machine.now)

    def start_tile(self, tile, in_turn):
        yield self.arrived("q")
        yield self.arrived("k")
        if in_turn:
            yield self.take()
        qk = self.machine.product(self.warpgroup, f"QK {tile}0")
        if in_turn:
            self.give()
        yield self.until(qk)
        self.release("k")
        yield self.work(SOFTMAX, f"softmax {tile}0")
        yield self.work(CONVERT, f"to 16 bits {tile}0")

    def step(self, block, before, last, store=None):
        """QK^T of `block`, perhaps the tile's last, with PV of the one before; `store`: the old
        tile's O leaves between."""
        yield self.arrived("k")
        yield self.arrived("v")
        yield self.take()
        qk = self.machine.product(self.warpgroup, f"QK {block}")
        if store:
            yield self.work(STORE, f"store {store}")
        pv = self.machine.product(self.warpgroup, f"PV {before}")
        self.give()
        yield self.until(qk)
        self.release("k")
        if last:
            self.release("q")
        yield self.work(SOFTMAX, f"softmax {block}")
        yield self.until(pv)
        self.release("v")

    def last_pv(self, block):
        yield self.arrived("v")
        yield self.take()
        pv = self.machine.product(self.warpgroup, f"PV {block}")
        self.give()
        yield self.until(pv)
        self.release("v")

    def run(self):
        yield from self.start_tile(TILES[0][0], False)
        crossed = None  # the tile whose O is still in registers
        for number, (tile, needed) in enumerate(TILES):
            blocks, skips = needed[self.warpgroup], needed[self.warpgroup] < max(needed)
            for block in range(1, blocks):
                if block == 1 and crossed:
                    yield self.work(CONVERT, f"to 16 bits {tile}0")
                yield from self.step(f"{tile}{block}", f"{tile}{block - 1}", block == blocks - 1,
                                     crossed)
                crossed = None
                yield self.work(CONVERT, f"to 16 bits {tile}{block}")
            last = f"{tile}{blocks - 1}"
            following = TILES[number + 1][0] if number + 1 < len(TILES) else None
            if following and not skips:
                yield self.arrived("q")
                yield from self.step(f"{following}0", last, False)
                crossed = tile
                continue
            if skips:
                yield self.arrived("k")
                self.release("k")
            yield from self.last_pv(last)
            yield self.work(STORE, f"store {tile}")
            if following:
                yield from self.start_tile(following, True)
            if skips:
                yield self.arrived("v")
                self.release("v")


LANES = [("loads", "producer warp: TMA"), ("tensor 0", "warpgroup 0: products"),
         ("cores 0", "softmax and stores"), ("tensor 1", "warpgroup 1: products"),
         ("cores 1", "softmax and stores")]
FILL = {"A": "#9ecae1", "B": "#fdd0a2", "C": "#c7e9c0"}
SCALE, LEFT, TOP, HEIGHT, GAP = 0.1, 150, 34, 26, 10


def drawn(machine):
    """The picture as text."""
    end = max(box[2] for box in machine.boxes)
    width, height = LEFT + end * SCALE + 10, TOP + len(LANES) * (HEIGHT + GAP) + 24
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
           f'width="{width:.0f}" height="{height}" font-family="sans-serif" font-size="9">')
    yield "<!-- written by docs/timeline.py -->"
    yield f'<rect width="{width:.0f}" height="{height}" fill="white"/>'
    for tick in range(0, end, 2048):
        x = LEFT + tick * SCALE
        yield (f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - 20}" '
               'stroke="#dddddd"/>')
        yield f'<text x="{x:.1f}" y="{TOP - 12}" text-anchor="middle">{tick}</text>'
    for row, (lane, title) in enumerate(LANES):
        y = TOP + row * (HEIGHT + GAP)
        yield f'<text x="{LEFT - 8}" y="{y + 16}" text-anchor="end" font-size="11">{title}</text>'
        for name, begin, stop, label, tile in machine.boxes:
            if name != lane:
                continue
            x, w = LEFT + begin * SCALE, (stop - begin) * SCALE
            dark = "#555555" if name.startswith("tensor") else "#aaaaaa"
            yield (f'<rect x="{x:.1f}" y="{y}" width="{w:.1f}" height="{HEIGHT}" '
                   f'fill="{FILL[tile]}" stroke="{dark}"><title>{label}</title></rect>')
            if w > 20:
                yield (f'<text x="{x + w / 2:.1f}" y="{y + 16}" text-anchor="middle">'
                       f'{label}</text>')
    yield (f'<text x="{LEFT}" y="{height - 6}">cycles; three tiles A, B, C; digits are key blocks; '
           'the narrow boxes convert P to 16 bits</text>')
    yield "</svg>"


def picture():
    machine = Machine()
    run(machine, [producer(machine), *(Consumer(machine, w).run() for w in range(2))])
    return "\n".join(drawn(machine)) + "\n"


def main():
    if sys.argv[1:] == ["--check"]:
        same = PATH.exists() and PATH.read_text() == picture()
        print(f"{PATH.name} is " + ("up to date" if same else "not what docs/timeline.py writes"))
        return 0 if same else 1
    PATH.write_text(picture())
    return 0


if __name__ == "__main__":
    sys.exit(main())
