#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the rules of docs/architecture.md that a machine can check.

    scripts/check_architecture.py [ROOT]

The arrows between folders (by #include), the sizes of files and functions, and the small habits:
the licence line, ASCII, no machine paths. Prints one line a violation, then one of totals; exits 1
if there was any. tests/scripts/check_architecture_test.py shows that each rule can fail.
"""
import ast
import re
import subprocess
import sys
from pathlib import Path

MAX_FILE = 400
MAX_FUNCTION = 80
MAX_LINE = 100

# Folder or file -> what it may include. The longest matching prefix names the area of a file.
KERNEL_SHARED = ["src/cuda/types.h", "src/cuda/config.h", "src/cuda/config_table.h",
                 "src/cuda/experiments.inc.h", "src/cuda/params.h", "src/cuda/kernels.h",
                 "src/cuda/sm80/config.h", "src/cuda/sm80/params.h", "src/cuda/sm80/kernels.h",
                 "src/cuda/sm80/query_gradients.h"]
ARROWS = {
    "include/volley": ["include/volley"],
    # The core: the whole story without CUDA. config.h is the table of kernels, plain C++.
    "src": ["src", "include/volley", "src/cuda/config.h"],
    "src/cpu": ["src/cpu", "src", "include/volley"],
    "src/combine.cpp": ["src/cpu", "src", "include/volley"],  # runs on the CPU by itself
    "src/doctor.cpp": ["src/cpu", "src", "include/volley"],  # judges what the CPU backend reads
    # The host side of CUDA: launches, and the kernels' parameters, but no kernel code.
    "src/cuda": ["src/cuda", "src", "include/volley", "src/cpu/contents.h", *KERNEL_SHARED],
    # What host and device share.
    **{path: KERNEL_SHARED for path in KERNEL_SHARED},
    # Device code, each storey on the one below.
    "src/cuda/ptx": ["src/cuda/ptx", *KERNEL_SHARED],
    "src/cuda/common": ["src/cuda/common", "src/cuda/ptx", *KERNEL_SHARED],
    "src/cuda/sm90": ["src/cuda/sm90", "src/cuda/common", "src/cuda/ptx", *KERNEL_SHARED],
    "src/cuda/sm80": ["src/cuda/sm80", "src/cuda/common", "src/cuda/ptx", "src/dropout.h",
                      *KERNEL_SHARED],
    "src/cuda/instances": ["src/cuda/sm90", "src/cuda/sm80", *KERNEL_SHARED],
    # What "right" means, and the command: users of the C ABI. They read a few headers of the core
    # that hold facts rather than work: dtype conversions, roles, the table of offers, the checks of
    # lengths and tables.
    "check": ["check", "include/volley", "src/dtype.h", "src/fmt.h", "src/roles.h", "src/offers.h"],
    "cli": ["cli", "check", "include/volley", "src/dtype.h", "src/fmt.h", "src/roles.h",
            "src/cpu/contents.h"],
    # An empty kernel with the parameters of a forward, for `volley bench`.
    "cli/gpu_kernels.cu": ["cli", "src/cuda/params.h"],
    "examples": ["include/volley"],
}
SEARCH_PATH = ["src", "check", "cli", "include"]  # like the build's -I
DEVICE_CODE = ("src/cuda/ptx/", "src/cuda/common/", "src/cuda/sm90/", "src/cuda/sm80/",
               *KERNEL_SHARED)

CODE = {".h", ".hpp", ".c", ".cpp", ".cu", ".cuh", ".py", ".sh", ".cmake", ".txt"}
C_FAMILY = {".h", ".hpp", ".c", ".cpp", ".cu", ".cuh"}
NOT_OURS = ("tests/data/",)

# Brackets keep these patterns from finding themselves.
FORBIDDEN = [
    (re.compile(r"(?<![\w.}])/(work|farm|home|root|Users)/"), "a path of one machine"),
    (re.compile(r"deb[.]debian[.]org|archive[.]ubuntu[.]com|pypi[.]org|pythonhosted[.]org"),
     "the host of a package registry"),
    (re.compile(r"\b(TO[D]O|FIX[M]E|X[X]X)\b"), "unfinished work"),
]
INCLUDE = re.compile(r'\s*#\s*include\s*(["<])([^">]+)[">]')


def tracked_files(root):
    """Paths relative to root: what git would commit, or everything where there is no git."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"],
                            capture_output=True, text=True)
    if listed.returncode == 0:
        paths = listed.stdout.split("\n")
    else:
        paths = [str(p.relative_to(root)) for p in root.rglob("*")]
    return sorted(p for p in set(paths) if p and (root / p).is_file())


def area_of(path):
    prefixes = [p for p in ARROWS if path == p or path.startswith(p + "/")]
    return max(prefixes, key=len, default=None)


def resolve(root, path, name):
    """The file that a quoted include names, or None when it is not of this tree."""
    for folder in [str(Path(path).parent), *SEARCH_PATH]:
        candidate = Path(folder) / name
        if (root / candidate).is_file():
            return candidate.as_posix()
    return None


def check_includes(root, path, lines):
    area = area_of(path)
    if area is None:
        return
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, name = match.groups()
        if quote == "<" and not name.startswith("volley/"):
            if path.startswith(DEVICE_CODE):
                yield number, f"device code includes <{name}>, but must do without host headers"
            continue
        target = resolve(root, path, name)
        if target is None:
            yield number, f'includes "{name}", which is not in the tree'
        elif not allowed(area, target):
            yield number, f"{area} may not include {target} (the arrows of docs/architecture.md)"


def allowed(area, target):
    target_area = area_of(target)
    return any(target == entry or target_area == entry for entry in ARROWS[area])


def functions(path, lines):
    """(first line, length) of each function; for C and shell by indentation, as the formatter and
    habit lay them out: a function ends with a lone brace, and starts at the last line before it
    that is not deeper."""
    if path.endswith(".py"):
        for node in ast.walk(ast.parse("\n".join(lines))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node.lineno, node.end_lineno - node.lineno + 1
        return
    for end, line in enumerate(lines):
        if line not in ("}", "  }"):
            continue
        indent = len(line) - 1
        start = end - 1
        while start > 0 and (not lines[start].strip() or lines[start].startswith("#") or
                             len(lines[start]) - len(lines[start].lstrip()) > indent):
            start -= 1
        yield start + 1, end - start + 1


def check_lines(path, lines):
    top = [line for line in lines[:2] if not line.startswith("#!")]
    if not top or "SPDX-License-Identifier: BSD-3-Clause" not in top[0]:
        yield 1, "the first line (after #!) must be the SPDX line"
    if len(lines) > MAX_FILE:
        yield len(lines), f"{len(lines)} lines; a file has at most {MAX_FILE}"
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LINE:
            yield number, f"{len(line)} columns; a line has at most {MAX_LINE}"
        if not line.isascii():
            yield number, "a character beyond ASCII"
    for number, length in functions(path, lines):
        if length > MAX_FUNCTION:
            yield number, f"a function of {length} lines; at most {MAX_FUNCTION}"


def comment_lines(lines):
    inside = False
    for line in lines:
        text = line.strip()
        inside = inside or text.startswith("/*")
        if inside or "//" in text or text.endswith("*/"):
            yield line
        inside = inside and "*/" not in text


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    violations, code_lines, comments, files = [], 0, 0, 0
    for path in tracked_files(root):
        if path.startswith(NOT_OURS):
            continue
        try:
            lines = (root / path).read_text().split("\n")
        except UnicodeDecodeError:
            continue  # not text: the rules are about sources
        if lines[-1] == "":
            lines.pop()
        found = []
        if Path(path).suffix in CODE or lines[:1] and lines[0].startswith("#!"):
            files += 1
            found += check_lines(path, lines)
        if Path(path).suffix in C_FAMILY:
            found += check_includes(root, path, lines)
            comments += sum(1 for _ in comment_lines(lines))
            code_lines += sum(1 for line in lines if line.strip())
        found += [(number, f"holds {what}") for number, line in enumerate(lines, 1)
                  for pattern, what in FORBIDDEN if pattern.search(line)]
        violations += [f"{path}:{number}: {sentence}" for number, sentence in found]

    print("\n".join(violations), end="\n" if violations else "")
    share = 100 * comments / max(code_lines, 1)
    print(f"{files} files, {code_lines} lines of C, C++ and CUDA, {share:.0f} % of them comments; "
          f"{len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
