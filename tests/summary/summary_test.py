#!/usr/bin/env python3
"""Feeds summary.awk a log as CTest writes it and checks the counts that tests/run.sh ends with."""

import pathlib
import subprocess
import tempfile
import unittest

AWK = pathlib.Path(__file__).with_name("summary.awk")

GTEST_PASSES = """[==========] Running 3 tests from 1 test suite.
[ RUN      ] Tape.A
[       OK ] Tape.A (0 ms)
[ RUN      ] Tape.B
[       OK ] Tape.B (0 ms)
[ RUN      ] Tape.C
tests/tape_test.cc:12: Skipped
needs PyTorch:
third_party/install.sh

[  SKIPPED ] Tape.C (0 ms)
[==========] 3 tests from 1 test suite ran. (0 ms total)
[  PASSED  ] 2 tests.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Tape.C
"""
GTEST_FAILS = """[ RUN      ] Plan.A
[  FAILED  ] Plan.A (0 ms)
[  PASSED  ] 4 tests.
[  FAILED  ] 2 tests, listed below:
[  FAILED  ] Plan.A
[  FAILED  ] Plan.B
"""


def entry(number, name, output, verdict="Passed"):
    return (f"{number}/9 Testing: {name}\n{number}/9 Test: {name}\nCommand: \"x\"\nOutput:\n-----\n{output}"
            f"<end of output>\nTest time =   0.10 sec\n-----\nTest {verdict}.\n\"{name}\" end time: now\n\n")


def summarise(log, failed_names=(), ctest_status=0):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "log").write_text("Start testing: now\n-----\n" + log)
        (folder / "failed").write_text("".join(f"{i}:{name}\n" for i, name in enumerate(failed_names, 1)))
        result = subprocess.run(["awk", "-v", f"failed_list={folder / 'failed'}", "-v",
                                 f"ctest_status={ctest_status}", "-f", AWK, folder / "log"],
                                capture_output=True, text=True, check=True)
    return result.stdout.splitlines()


class Summary(unittest.TestCase):
    def test_counts_cases_and_gives_reasons(self):
        self.assertEqual(summarise(entry(1, "tape_test", GTEST_PASSES) + entry(2, "layer_rules", "fine\n")),
                         ["skipped: tape_test: Tape.C: needs PyTorch: third_party/install.sh",
                          "3 passed, 0 failed, 1 skipped"])

    def test_counts_ranks_once(self):
        lines = summarise(entry(1, "mpi_test.np2", GTEST_PASSES + GTEST_PASSES))
        self.assertEqual(len(lines), 2)
        self.assertEqual(lines[-1], "2 passed, 0 failed, 1 skipped")

    def test_failures(self):
        log = entry(1, "plan_test", GTEST_FAILS, "Failed") + entry(2, "tape_test", GTEST_PASSES)
        self.assertEqual(summarise(log, ["plan_test"])[-2:],
                         ["FAILED: plan_test", "6 passed, 2 failed, 1 skipped"])

    def test_a_crash_is_a_failure(self):
        self.assertEqual(summarise(entry(1, "a", "[ RUN      ] A.B\nSegmentation fault\n", "Failed"), ["a"])[-1],
                         "0 passed, 1 failed, 0 skipped")

    def test_failing_after_all_cases_passed_is_a_failure(self):
        self.assertEqual(summarise(entry(1, "a", GTEST_PASSES, "Failed"), ["a"])[-1], "2 passed, 1 failed, 1 skipped")

    def test_a_program_that_was_not_built_is_a_failure(self):
        self.assertEqual(summarise("", ["plan_test"]), ["FAILED: plan_test", "0 passed, 1 failed, 0 skipped"])

    def test_never_disagrees_with_the_exit_code(self):
        self.assertEqual(summarise("", ctest_status=1),
                         ["FAILED: ctest itself, see above", "0 passed, 1 failed, 0 skipped"])


if __name__ == "__main__":
    unittest.main()
