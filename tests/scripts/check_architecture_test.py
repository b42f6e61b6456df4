# SPDX-License-Identifier: BSD-3-Clause
"""scripts/check_architecture.py can fail: a clean little tree passes, each mistake planted in it
is found, by name."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_architecture.py"
SPDX = "// SPDX-License-Identifier: BSD-3-Clause\n"
CLEAN = {
    "include/volley/volley.h": SPDX,
    "src/plan.h": SPDX + "#include <string>\n",
    "src/plan.cpp": SPDX + '#include "plan.h"\n#include "cuda/config.h"\n',
    "src/cuda/config.h": SPDX,
    "src/cuda/launch.h": SPDX + '#include "plan.h"\n',
    "src/cuda/ptx/core.cuh": SPDX,
    "src/cuda/common/mask.cuh": SPDX + '#include "cuda/ptx/core.cuh"\n',
    "src/cuda/sm90/forward.cuh": SPDX + '#include "cuda/common/mask.cuh"\n',
    "check/run.h": SPDX + "#include <volley/volley.h>\n",
    "cli/main.cpp": SPDX + '#include "run.h"\n#include "volley/volley.h"\n',
    "scripts/tool.sh": "#!/bin/sh\n# SPDX-License-Identifier: BSD-3-Clause\n",
}


def check(files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


class CheckArchitecture(unittest.TestCase):
    def test_a_clean_tree_passes(self):
        code, output = check(CLEAN)
        self.assertEqual(code, 0, output)
        self.assertIn("0 violations", output)

    def finds(self, path, text, sentence):
        code, output = check({**CLEAN, path: text})
        self.assertEqual(code, 1, output)
        self.assertIn(sentence, output)
        self.assertIn("1 violations", output)

    def test_arrows(self):
        include = SPDX + '#include "%s"\n'
        arrow = "%s may not include %s"
        for path, target, area in [
            ("src/plan.cpp", "cuda/launch.h", "src"),
            ("src/cuda/launch.h", "cuda/sm90/forward.cuh", "src/cuda"),
            ("src/cuda/ptx/core.cuh", "cuda/common/mask.cuh", "src/cuda/ptx"),
            ("src/cuda/common/mask.cuh", "cuda/sm90/forward.cuh", "src/cuda/common"),
            ("src/cuda/config.h", "plan.h", "src/cuda/config.h"),
            ("check/run.h", "plan.h", "check"),
            ("cli/main.cpp", "plan.h", "cli"),
        ]:
            with self.subTest(path=path, target=target):
                self.finds(path, include % target, arrow % (area, "src/" + target))

    def test_host_headers_in_device_code(self):
        self.finds("src/cuda/common/mask.cuh", SPDX + "#include <vector>\n", "without host headers")

    def test_an_include_of_nothing(self):
        self.finds("src/plan.h", SPDX + '#include "missing.h"\n', "which is not in the tree")

    def test_sizes(self):
        self.finds("src/plan.h", SPDX + "int a;\n" * 400, "a file has at most 400")
        self.finds("src/plan.h", SPDX + "int " + "a" * 97 + ";\n", "102 columns")
        body = "int f() {\n" + "  g();\n" * 79 + "}\n"
        self.finds("src/plan.h", SPDX + body, "a function of 81 lines")
        self.finds("scripts/long.py", SPDX.replace("//", "#") + "def f():\n" + "    g()\n" * 80,
                   "a function of 81 lines")

    def test_habits(self):
        self.finds("src/plan.h", "int a;\n", "must be the SPDX line")
        self.finds("src/plan.h", SPDX + "// na\u00efve\n", "beyond ASCII")
        self.finds("src/plan.h", SPDX + "// TO" + "DO: later\n", "unfinished work")
        self.finds("README.md", "see /wo" + "rk/tree\n", "a path of one machine")
        self.finds("README.md", "https://pypi" + ".org\n", "the host of a package registry")


if __name__ == "__main__":
    unittest.main()
