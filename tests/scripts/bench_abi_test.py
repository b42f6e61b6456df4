# SPDX-License-Identifier: BSD-3-Clause
"""bench/volley_abi.py has the structs of volley.h: an attention through it is right, and a wrong
value in a field is refused under that field's name.

    bench_abi_test.py LIBVOLLEY_SO
"""
import array
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import volley_abi  # noqa: E402

LIBRARY = volley_abi.Library(sys.argv.pop())
TOKENS, DIM = 5, 4


def view(values):
    shape, stride = (1, TOKENS, 1, DIM), (TOKENS * DIM, DIM, DIM, 1)
    return volley_abi.tensor(values.buffer_info()[0], volley_abi.F32, shape, stride)


class BenchAbi(unittest.TestCase):
    def setUp(self):
        count = TOKENS * DIM
        self.q, self.k = array.array("f", [1] * count), array.array("f", [0] * count)
        self.v = array.array("f", [float(i // DIM) for i in range(count)])
        self.o = array.array("f", [float("nan")] * count)
        self.tensors = [view(x) for x in (self.q, self.k, self.v, self.o)]

    def test_causal_means(self):
        plan = LIBRARY.plan(*self.tensors, causal=1)
        self.assertEqual(plan.backend, "cpu")
        plan.run()
        for i, value in enumerate(self.o):
            self.assertAlmostEqual(value, (i // DIM) / 2, places=6)

    def test_gradients_of_causal_means(self):
        nan = [float("nan")] * (TOKENS * DIM)
        lse = array.array("f", [float("nan")] * TOKENS)
        lse_view = volley_abi.tensor(lse.buffer_info()[0], volley_abi.F32, (1, 1, TOKENS),
                                     (TOKENS, TOKENS, 1))
        LIBRARY.plan(*self.tensors, lse=lse_view, causal=1).run()
        arrays = {name: array.array("f", nan) for name in ("dq", "dk", "dv")}
        arrays["dout"] = array.array("f", [1] * (TOKENS * DIM))
        tensors = dict(zip("qkvo", self.tensors)) | {n: view(x) for n, x in arrays.items()}
        plan = LIBRARY.plan_backward({"lse": lse_view, **tensors}, causal=1)
        self.assertEqual(plan.backend, "cpu")
        plan.run()
        for i, value in enumerate(arrays["dv"]):  # the weights of key j: 1 / (j + 1) and on
            wanted = sum(1 / (query + 1) for query in range(i // DIM, TOKENS))
            self.assertAlmostEqual(value, wanted, places=5)
        self.assertEqual(list(arrays["dq"]), [0] * (TOKENS * DIM))

    def test_fields_have_their_places(self):
        for name, value in [("dropout_p", 2.0), ("mask_alignment", 9), ("window_right", -3),
                            ("max_seqlen_k", -1), ("k_scale_block", 0), ("accuracy", 9),
                            ("num_splits", -1), ("max_sms", -1), ("split_size", -1),
                            ("num_threads", -1), ("mask_hook", 1)]:
            with self.subTest(field=name):
                with self.assertRaisesRegex(volley_abi.VolleyError, name):
                    LIBRARY.plan(*self.tensors, **{name: value})

    def test_describes(self):
        config = LIBRARY.plan(*self.tensors, num_threads=1).describe()["config"]
        self.assertEqual(config["threads"], 1)
        self.assertGreaterEqual(LIBRARY.doctor()["cpu"]["cores"], 1)

    def test_unknown_options_do_not_pass(self):
        with self.assertRaises(AttributeError):
            LIBRARY.plan(*self.tensors, casual=1)


if __name__ == "__main__":
    unittest.main()
