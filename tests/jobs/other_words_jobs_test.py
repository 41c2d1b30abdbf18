#!/usr/bin/env python3
"""Recovery does not depend on the wording of messages: it works with a program whose sentences are all others.

    other_words_jobs_test.py --trireme build/release/bin/trireme --mpiexec mpirun [unittest options]
"""
import json
import os
import shutil
import signal
import tempfile
import time
import unittest
import unittest.mock
from pathlib import Path

from jobs import OPTIONS, JobTest, main
from other_words import changed, write_changed_program
from supervised import SLOWER, SmallDisk, Supervised, is_alive, sets


class OtherWords(JobTest):
    @classmethod
    def setUpClass(cls):
        folder = Path(tempfile.mkdtemp(prefix="trireme-words-"))
        cls.addClassCleanup(shutil.rmtree, folder)
        number = write_changed_program(OPTIONS.trireme, folder / "trireme")
        assert number > 500, f"{number} sentences were found in the program"
        patch = unittest.mock.patch.object(OPTIONS, "trireme", str(folder / "trireme"))
        cls.unchanged = OPTIONS.trireme
        patch.start()
        cls.addClassCleanup(patch.stop)

    def check(self, run):
        output = run.output()
        with unittest.mock.patch.object(OPTIONS, "trireme", self.unchanged):
            self.run_job(0, "whole", *sets(*SLOWER))
        state = json.loads((run.out / "summary.json").read_text())["state_hash"]
        self.assertEqual(state, self.state("whole"), output)
        self.assertIn(changed("resuming from"), output)
        self.assertNotIn("resuming from", output)
        self.assertNotIn("trireme-record", output, "a record is shown")
        self.assertEqual(run.tagged(), [], "processes are left")

    def records(self, run, event):
        return [json.loads(path.read_text()) for path in sorted((run.out / "attempts").glob(f"records-*/{event}-*.json"))]

    def test_a_rank_that_is_killed(self):
        run = Supervised(self, "killed")
        run.wait_for_step(12)
        os.kill(run.rank(1), signal.SIGKILL)
        run.end()
        end = run.events("end")[0]
        self.assertEqual((end["exit_code"], end["code"]), (137, "communication"), run.output())
        self.assertGreater(run.events("begin")[1]["first_step"], 5, "it goes on from a checkpoint")
        self.assertEqual(self.records(run, "resumed")[0]["step"] + 1, run.events("begin")[1]["first_step"])
        self.check(run)

    def test_a_rank_that_is_stopped(self):
        run = Supervised(self, "stopped", keys=(f"parallel.timeout_s={OPTIONS.timeout}",))
        run.wait_for_step(12)
        os.kill(run.rank(1), signal.SIGSTOP)
        run.end()
        verdict, = self.records(run, "verdict")
        self.assertEqual((verdict["rank"], verdict["reporter"], verdict["host"]), (1, 0, os.uname().nodename))
        self.assertEqual((verdict["field"], verdict["value"]), ("EngineOptions::timeout_s", str(OPTIONS.timeout)))
        self.assertRegex(verdict["action"], r"\d+.*\d+", "step and action")
        self.check(run)

    def test_a_newest_checkpoint_that_is_damaged(self):
        run = Supervised(self, "damaged", keys=("train.steps=14",))
        run.end()
        newest = sorted((run.out / "checkpoints").glob("step-*"))[-1]
        for shard in newest.glob("*.safetensors"):
            with open(shard, "r+b") as file:
                file.seek(-8, os.SEEK_END)
                file.write(b"\xa5" * 8)
        again = Supervised(self, "damaged")
        again.end()
        self.assertEqual([record["step"] for record in self.records(again, "resumed")], [10])
        self.assertEqual(len(again.events("resumed")), 1, again.output())
        self.check(again)

    def test_the_memory_of_the_host(self):
        run = Supervised(self, "memory", keys=("checkpoint.partner=true", f"checkpoint.partner_folder={self.folder / 'memory'}"))
        run.wait_for_step(12)
        ranks = [run.rank(0), run.rank(1)]
        for rank in ranks:
            os.kill(rank, signal.SIGKILL)
        while any(is_alive(rank) for rank in ranks):
            time.sleep(0.01)
        shutil.rmtree(run.out / "checkpoints")
        output = run.end()
        self.assertEqual(len(run.events("memory")), 1, output)
        self.assertIn(self.records(run, "resumed")[0]["step"], (5, 10, 15))

    def test_a_disk_that_is_full_for_a_while(self):
        disk = SmallDisk(self, 24)
        run = Supervised(self, "full", disk=disk)
        run.wait_for_step(6)
        disk.fill()
        deadline = time.time() + 60
        while changed("waiting for the disk") not in run.output():
            self.assertLess(time.time(), deadline, run.output())
            time.sleep(0.05)
        disk.make_room()
        run.end()
        self.assertEqual(run.events("end")[0]["system_error"], 28, run.output())
        self.check(run)

    def test_a_run_without_an_update_is_not_repeated(self):
        run = Supervised(self, "skipped", keys=("precision.mode=fp16", "precision.scale_init=1e30", "train.steps=4"))
        output = run.end(expect=1)
        self.assertEqual([end["code"] for end in run.events("end")], ["no_progress"], output)

    def test_bad_input(self):
        run = Supervised(self, "refused", keys=('data.kind="tokens"', 'data.train="nowhere"'))
        self.assertIn("nowhere", run.end(expect=2))
        self.assertLessEqual(len(run.events("begin")), 1, run.output())


if __name__ == "__main__":
    main()
