#!/usr/bin/env python3
"""Plants every violation that layer_rules.py looks for, one at a time, in a small clean tree: each must be found."""

import pathlib
import tempfile
import unittest

import layer_rules

HEADER = "// What it is for.\n#pragma once\n"
CLEAN = {
    "runtime/base/error.h": HEADER,
    "kernels/backend.h": HEADER + '#include "runtime/base/error.h"\n',
    "kernels/cpu/matmul.h": HEADER + "#include <oneapi/dnnl/dnnl.hpp>\n",
    "kernels/cpu/matmul/matmul.cc": '#include "kernels/cpu/matmul.h"\n',
    "kernels/cuda/device/stream.h": HEADER + "#include <cuda_runtime.h>\n#include <cudnn.h>\n",
    "runtime/tensor.h": HEADER + '#include "kernels/backend.h"\n',
    "runtime/tensor.cc": '#include "runtime/tensor.h"\n// getenv("X") and exit(1) in a comment\n'
                         'const char* text = "call getenv(NAME) or exit(1)";\n',
    "parallel/engine.h": HEADER + '#include "runtime/tensor.h"\n',
    "parallel/comm/mpi.cc": "#include <mpi.h>\n#include <nccl.h>\n",
    "models/gpt.h": HEADER + '#include "runtime/tensor.h"\n',
    "launcher/host/env.cc": '#include "parallel/engine.h"\nauto x = std::getenv("X");\n',
    "launcher/main.cc": '#include "models/gpt.h"\nvoid stop() { std::exit(2); }\n'
                        'void warn() { fmt::print(stderr, "x"); std::fprintf(stderr, "x"); std::snprintf(b, 2, "x"); }\n'
                        'bool shown() { return isatty(STDOUT_FILENO) == 1; }\n#include <spdlog/sinks/stdout_sinks.h>\n',
    "launcher/host/standard_output.cc": "void put(const char* s) { std::fputs(s, stdout); }\n",
    "tests/parallel/comm/mpi_test.cc": "#include <mpi.h>\n",
    "examples/01_tensor.cc": '#include "runtime/tensor.h"\n',
}


def check(extra):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in {**CLEAN, **extra}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        return layer_rules.check_tree(root)


class LayerRules(unittest.TestCase):
    def assert_found(self, path, line, rule, text):
        violations, _ = check({path: text})
        self.assertEqual([v.split(": ")[:2] for v in violations], [[f"{path}:{line}", rule]])

    def test_clean_tree_passes(self):
        self.assertEqual(check({}), ([], []))

    def test_forbidden_layers(self):
        for path, header in (
            ("runtime/base/shape.cc", "runtime/tensor.h"),
            ("runtime/base/shape.cc", "kernels/backend.h"),
            ("kernels/cpu/gelu.cc", "runtime/tensor.h"),
            ("kernels/backend.h", "runtime/tensor.h"),
            ("kernels/cpu/gelu.cc", "kernels/cuda/device/stream.h"),
            ("kernels/cuda/gelu.cu", "kernels/cpu/matmul.h"),
            ("runtime/tape.cc", "kernels/cpu/matmul.h"),
            ("runtime/tape.cc", "parallel/engine.h"),
            ("runtime/tape.cc", "models/gpt.h"),
            ("parallel/plan.cc", "models/gpt.h"),
            ("parallel/plan.cc", "launcher/config.h"),
            ("parallel/plan.cc", "kernels/cpu/matmul.h"),
            ("models/bert.cc", "parallel/engine.h"),
            ("models/bert.cc", "launcher/config.h"),
            ("models/bert.cc", "kernels/backend.h"),
            ("launcher/main.cc", "kernels/cpu/matmul.h"),
            ("examples/02_engine.cc", "launcher/config.h"),
            ("runtime/tape.cc", "tests/support/gradcheck.h"),
        ):
            with self.subTest(path=path, header=header):
                extra = {"launcher/config.h": HEADER, "tests/support/gradcheck.h": HEADER}
                text = (HEADER if path.endswith(".h") else "\n\n") + f'#include "{header}"\n'
                violations, _ = check({**extra, path: text})
                self.assertEqual([v.split(": ")[:2] for v in violations], [[f"{path}:3", "layer"]])

    def test_order_of_rooms(self):
        rooms = {f"{room}/x.h": HEADER for room in ("launcher/config", "launcher/train", "parallel/foresee", "launcher/cellar")}
        for path, header in (
            ("launcher/config/a.cc", "launcher/train/x.h"),
            ("launcher/train/a.cc", "launcher/main.h"),
            ("launcher/train/a.cc", "launcher/cellar/x.h"),
            ("parallel/run/a.cc", "parallel/foresee/x.h"),
        ):
            with self.subTest(path=path, header=header):
                violations, _ = check({**rooms, "launcher/main.h": HEADER, path: f'#include "{header}"\n'})
                self.assertEqual([v.split(": ")[:2] for v in violations], [[f"{path}:1", "room"]])
        allowed = '#include "launcher/config/x.h"\n#include "parallel/foresee/x.h"\n'
        self.assertEqual(check({**rooms, "launcher/train/a.cc": allowed}), ([], []))

    def test_vendor_headers(self):
        for path, header in (
            ("runtime/tape.cc", "mpi.h"),
            ("launcher/main.cc", "mpi.h"),
            ("kernels/cpu/gelu.cc", "mpi.h"),
            ("parallel/engine.cc", "mpi.h"),
            ("runtime/ops/linear.cc", "oneapi/dnnl/dnnl.hpp"),
            ("kernels/backend.cc", "dnnl.hpp"),
            ("runtime/tensor.cc", "cuda_runtime.h"),
            ("parallel/comm/nccl.cc", "cudnn.h"),
            ("kernels/cpu/gelu.cc", "cublasLt.h"),
            ("parallel/engine.cc", "nccl.h"),
            ("tests/parallel/engine_test.cc", "mpi.h"),
        ):
            with self.subTest(path=path, header=header):
                self.assert_found(path, 2, "vendor-header", f"\n#include <{header}>\n")

    def test_includes_from_the_root(self):
        self.assert_found("runtime/tape.cc", 1, "include-root", '#include "tensor.h"\n')
        self.assert_found("runtime/tape.cc", 1, "include-quotes", "#include <runtime/tensor.h>\n")

    def test_headers(self):
        self.assert_found("runtime/tape.h", 1, "pragma-once", "// Says what, forgets the guard.\n")
        self.assert_found("runtime/tape.h", 1, "header-purpose", "#pragma once\n")

    def test_calls(self):
        self.assert_found("runtime/tape.cc", 2, "environment", '/* why */\nauto x = std::getenv("X");\n')
        self.assert_found("launcher/main.cc", 1, "environment", 'auto x = getenv ("X");\n')
        self.assert_found("parallel/plan.cc", 1, "no-exit", "void f() { std::exit(1); }\n")

    def test_standard_output(self):
        for call in ("std::cout << 1;", "std::ostream& out = std::cout;", 'fmt::print("{}", 1);', 'fmt::print(', "std::puts(s);",
                     'fmt::println("x");', 'std::printf("x");', "std::fputc('x', stdout);", "write(STDOUT_FILENO, s, 1);"):
            with self.subTest(call=call):
                self.assert_found("launcher/commands/a.cc", 2, "standard-output", f"\n{call}\n")
        self.assertEqual(check({"runtime/bench.cc": "std::puts(s);\n"}), ([], []))

    def test_text(self):
        self.assert_found("runtime/tape.cc", 2, "ascii", "\n// 2 \u00d7 3\n")
        self.assert_found("runtime/utils.cc", 1, "vague-name", "\n")
        self.assert_found("examples/run.sh", 1, "machine-path", "cd /ho" + "me/somebody/data\n")

    def test_links(self):
        self.assert_found("models/README.md", 2, "dead-link", "[here](gpt.h) [web](https://a.example/b)\n[gone](bert.h)\n")

    def test_long_lines_of_documentation(self):
        long = "x" * 121
        self.assert_found("models/README.md", 2, "long-line", f"{long[1:]}\n{long}\n")
        self.assert_found("parallel/comm/design_notes.md", 1, "long-line", long)
        self.assertEqual(check({"CHANGELOG.md": long}), ([], []))

    def test_files_that_documentation_names(self):
        for name in ("parallel/comm/mpi.cc", "comm/mpi.cc", "tensor.h"):
            self.assertEqual(check({"parallel/README.md": f"See `{name}`.\n"}), ([], []))
        self.assert_found("parallel/README.md", 2, "dead-name", "\nSee `plan/mpi.cc`.\n")
        for name in ("parallel/comm", "parallel/comm/mpi", "runtime/base/"):
            self.assertEqual(check({"README.md": f"See `{name}`.\n"}), ([], []))
        self.assert_found("README.md", 1, "dead-name", "See `parallel/plan`.\n")

    def test_commands_run_tests_that_exist(self):
        makes = {"tests/runtime/CMakeLists.txt": "trireme_test(tape_test LABEL unit)\nadd_test(NAME rules COMMAND x)\n"}
        for name in ("tape", "rules"):
            self.assertEqual(check({**makes, "README.md": f"    tests/run.sh -R {name}\n"}), ([], []))
        violations, _ = check({**makes, "tests/run.sh": "\n#   tests/run.sh " + "-R layer_norm\n"})
        self.assertEqual([v.split(": ")[:2] for v in violations], [["tests/run.sh:2", "dead-test"]])

    def test_generated_header_may_be_included(self):
        self.assertEqual(check({"launcher/host/build_info.h.in": HEADER, "launcher/doctor.cc":
                                '#include "launcher/host/build_info.h"\n'}), ([], []))

    def test_long_file_only_warns(self):
        violations, warnings = check({"runtime/tape.cc": "\n" * 401})
        self.assertEqual(violations, [])
        self.assertEqual(len(warnings), 1)

    def test_empty_tree_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            violations, _ = layer_rules.check_tree(folder)
        self.assertEqual(len(violations), 1)


if __name__ == "__main__":
    unittest.main()
