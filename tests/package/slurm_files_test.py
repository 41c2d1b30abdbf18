#!/usr/bin/env python3
"""The form of examples/slurm: batch scripts, the environment module, and the tables of fabric.md.

    slurm_files_test.py
"""
import re
import shutil
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "slurm"
START_OF_THE_WAIT = "\nrun=$!\n"
# Commands of a modulefile that Environment Modules and Lmod both know.
MODULE_COMMANDS = {"conflict", "module-whatis", "prepend-path", "prereq", "set", "setenv"}


def options_of(script):
    """Options of the #SBATCH lines, by name."""
    return dict(re.findall(r"(?m)^#SBATCH --([a-z-]+)(?:=(\S+))?$", script))


class BatchScripts(unittest.TestCase):
    def test_bash_accepts_every_script(self):
        scripts = sorted(FOLDER.glob("*.sbatch"))
        self.assertGreaterEqual(len(scripts), 2)
        for script in scripts:
            done = subprocess.run(["bash", "-n", script], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), script)

    def test_a_node_has_a_rank_for_each_gpu(self):
        options = options_of((FOLDER / "train_gpu.sbatch").read_text())
        self.assertEqual(options["gpus-per-node"], options["ntasks-per-node"])
        self.assertFalse({"gpus-per-task", "gpu-bind"} & set(options))

    def test_scripts_differ_in_the_start_only(self):
        cpu, gpu = ((FOLDER / name).read_text() for name in ("train.sbatch", "train_gpu.sbatch"))
        self.assertEqual(gpu.split(START_OF_THE_WAIT)[1], cpu.split(START_OF_THE_WAIT)[1])
        kept = set(options_of(cpu).items()) - {("ntasks-per-node", options_of(cpu)["ntasks-per-node"])}
        self.assertLessEqual(kept, set(options_of(gpu).items()))


class Module(unittest.TestCase):
    TEXT = (FOLDER / "modulefile").read_text()

    def test_has_a_header_and_known_commands(self):
        self.assertTrue(self.TEXT.startswith("#%Module1.0\n"))
        code = re.sub(r"(?ms)^proc ModulesHelp \{\} \{\n.*?^\}\n", "", self.TEXT)
        self.assertNotEqual(code, self.TEXT)
        lines = [line for line in code.splitlines() if line and not line.startswith("#")]
        self.assertLessEqual({line.split()[0] for line in lines}, MODULE_COMMANDS)
        version = re.search(r"project\(trireme VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertIn(f"set root /opt/trireme/{version}\n", self.TEXT)

    @unittest.skipUnless(shutil.which("tclsh"), "no tclsh")
    def test_sets_paths_of_the_installed_program(self):
        program = "".join(f"proc {name} args {{}}\n" for name in ("conflict", "module-whatis", "prereq"))
        program += 'proc prepend-path {name value} {puts "$name=$value"}\n' + self.TEXT + "\nModulesHelp\n"
        done = subprocess.run(["tclsh"], input=program, capture_output=True, text=True, check=True)
        root = re.search(r"(?m)^set root (\S+)$", self.TEXT)[1]
        self.assertEqual(done.stdout.split(), [f"PATH={root}/bin", f"CMAKE_PREFIX_PATH={root}"])
        self.assertIn("trireme", done.stderr)


class Fabric(unittest.TestCase):
    def test_every_setting_is_in_the_source_that_the_page_names(self):
        page = (FOLDER / "fabric.md").read_text()
        table = page.split("## What Trireme sets")[1].split("\n## ")[0]
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()
                if line.startswith("| `")]
        self.assertGreaterEqual(len(rows), 10)
        for setting, value, _, where in rows:
            self.assertIn(setting.strip("`"), (ROOT / where.strip("`")).read_text(), where)
            if re.fullmatch(r"\d+|`-?\w+`", value):
                self.assertIn(value.strip("`"), (ROOT / where.strip("`")).read_text(), setting)

    def test_every_variable_of_nccl_is_in_the_table(self):
        table = (FOLDER / "fabric.md").read_text().split("## What Trireme sets")[1].split("\n## ")[0]
        sources = [path for folder in ("launcher", "parallel", "kernels", "runtime")
                   for path in (ROOT / folder).rglob("*.cc")]
        self.assertGreater(len(sources), 100)
        names = {name for path in sources for name in re.findall(r'"(NCCL_\w+)"', path.read_text())}
        self.assertGreaterEqual(len(names), 5)
        for name in names:
            self.assertIn(f"| `{name}` |", table)


if __name__ == "__main__":
    unittest.main()
