# SPDX-License-Identifier: Apache-2.0
"""The parts of the harness that need no peer: python3 bench/peers/test_peers.py"""
import pathlib
import sys
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.modules.setdefault("fovea", types.SimpleNamespace(__version__="none"))  # adapters name it, nothing here calls it
import adapters  # noqa: E402
import cases  # noqa: E402
import report  # noqa: E402
import timing  # noqa: E402


def row(results, kind="decode", **more):
    return {"kind": kind, "dtype": "bf16", "d": 128, "heads": 32, "kv_heads": 8, "batch": 2, "length": 64, "name": "a case",
            "flops": 6e12, "bytes": 8e9, "results": results, **more}


class Timing(unittest.TestCase):
    def test_median(self):
        self.assertEqual(timing.median([3, 1, 2]), 2)
        self.assertEqual(timing.median([4, 1, 2, 3]), 2.5)

    def test_samples_are_taken_in_turn(self):
        order = []
        taken = timing.interleave({"A": lambda: order.append("A") or 1, "B": lambda: order.append("B") or 2}, 3)
        self.assertEqual("".join(order), "ABABAB")
        self.assertEqual(taken, {"A": [1, 1, 1], "B": [2, 2, 2]})

    def test_sets_are_twice_the_cache(self):
        self.assertEqual(timing.number_of_sets(10, 100), 20)
        self.assertEqual(timing.number_of_sets(1000, 100), 2)
        self.assertEqual(timing.number_of_sets(1, 10**9), 64)

    def test_calls_are_whole_turns(self):
        self.assertEqual(timing.number_of_calls(0.001, 3, 0.01), 12)
        self.assertEqual(timing.number_of_calls(1, 3, 0.01), 3)

    def test_every_set_is_called(self):
        called = []
        sample, _ = timing.CpuTimer(1e-4).sampler([lambda i=i: called.append(i) for i in range(3)])
        called.clear()
        self.assertGreaterEqual(sample(), 0)
        self.assertEqual(called[:6], [0, 1, 2, 0, 1, 2])
        self.assertEqual(len(called) % 3, 0)


class Cases(unittest.TestCase):
    def test_work(self):
        prefill = cases.Case("prefill", 2, 4, 3, 3, 8)
        self.assertEqual(prefill.flops, 4 * 2 * 3 * 8 * (1 + 2 + 3 + 4))
        decode = cases.Case("decode", 2, 100, 4, 1, 8)
        self.assertEqual(decode.flops, 4 * 2 * 4 * 8 * 100)
        self.assertEqual(decode.bytes, 2 * 2 * 100 * 8 * 2 + 2 * 2 * 4 * 8 * 2)

    def test_names_differ_and_pages_are_whole(self):
        for wanted in (list(cases.cuda_cases()), list(cases.cpu_cases())):
            self.assertEqual(len({case.name for case in wanted}), len(wanted))
            self.assertTrue(all(case.length % cases.PAGE == 0 for case in wanted))
        self.assertEqual({c.batch * c.length for c in cases.cuda_cases() if c.kind == "prefill"}, {16384})


class Adapters(unittest.TestCase):
    def test_reasons(self):
        absent, present = adapters.others(lambda module: False), adapters.others(lambda module: True)
        self.assertEqual(absent.keys(), present.keys())
        self.assertTrue(all(reason.startswith("not installed; ") for reason in absent.values()))
        self.assertEqual(present["cuLA"], "Fovea has no linear attention yet")

    def test_each_device(self):
        self.assertEqual(adapters.ADAPTERS[0].name, report.BASE)
        on = {device: [a.name for a in adapters.ADAPTERS if a.missing(device) is None] for device in ("cpu", "cuda")}
        self.assertEqual(on["cpu"], ["Fovea", "Fovea, pages of 16", "PyTorch"])
        self.assertIn("PyTorch, cuDNN", on["cuda"])

    def test_a_module_that_cannot_be_found(self):
        self.assertFalse(adapters.installed("no_such_module_of_anybody.child"))


class Report(unittest.TestCase):
    def test_a_loss_stands_beside_a_win(self):
        lines = report.table([row({"Fovea": {"seconds": 2.0}, "Other": {"seconds": 1.0}}),
                              row({"Fovea": {"seconds": 1.0}, "Other": {"seconds": 4.0}}, length=128)])
        self.assertEqual(lines[0], "| GB/s | Fovea | Other | speed over the best peer | best peer |")
        self.assertEqual(lines[2:], ["| 2 x 64 | 4.00 | 8.00 | 0.50 | Other |", "| 2 x 128 | 8.00 | 2.00 | 4.00 | Other |"])

    def test_prefill_counts_flops(self):
        fast, slow = (row({"Fovea": {"seconds": seconds}}, "prefill") for seconds in (0.5, 20))
        self.assertEqual((report.unit(fast)[0], report.cell(fast, "Fovea")), ("TFLOP/s", "12.0"))
        self.assertEqual((report.unit(slow)[0], report.cell(slow, "Fovea")), ("GFLOP/s", "300"))

    def test_what_was_not_timed(self):
        results = {"Fovea": {"seconds": 1.0}, "A": {"mismatch": True, "worst_row_error": 0.5, "bound": 0.25}, "B": {"failed": "RuntimeError: x"},
                   "C": {"skipped": "not for decode"}}
        line = report.table([row(results)])[2]
        self.assertEqual(line, "| 2 x 64 | 8.00 | differs | failed |  |  |")
        self.assertEqual(report.complaints([row(results)]), [
            "- a case: A differs from Fovea, worst row 0.5, allowed 0.25: not timed", "- a case: B: RuntimeError: x"])

    def test_numbers(self):
        self.assertEqual([report.number(x) for x in (4123.4, 99.94, 1.234, 0.001)], ["4123", "99.9", "1.23", "1.0e-03"])


if __name__ == "__main__":
    unittest.main()
