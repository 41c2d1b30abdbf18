#!/usr/bin/env python3
"""Two users of one machine: files that the second user puts into shared folders must not make a job of the first user
read, write or delete a file of the first. Needs root to act as both users.

    two_users_test.py --trireme build/release/bin/trireme --mpiexec mpirun [unittest options]
"""
import json
import os
import random
import shutil
import stat
import subprocess
import unittest
from pathlib import Path

from jobs import JOB, OPTIONS, JobTest, main

SECRET = b"correct horse battery staple 4711"
FOREIGN = "belongs to another user"


@unittest.skipUnless(os.geteuid() == 0, "only root can be two users")
class TwoUsers(JobTest):
    def setUp(self):
        super().setUp()
        self.first = random.SystemRandom().randrange(200_000, 2_000_000_000)  # no user of this machine
        self.second = self.first + 1
        self.addCleanup(self.remove_shared)
        self.folder.chmod(0o755)
        self.trireme = self.folder / "trireme"  # where both can start it
        shutil.copy2(OPTIONS.trireme, self.trireme)
        self.shared = self.folder / "shared"
        self.shared.mkdir()
        self.shared.chmod(0o1777)
        self.home = self.folder / "home"
        self.precious = self.home / "precious"
        for name in ("step-000004/model.safetensors", "checkpoints/step-000002/manifest.json", "0.shard", "config.toml",
                     "metrics.jsonl", ".lock", "secret"):
            file = self.precious / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(SECRET)
        (self.home / "job.toml").write_text(JOB)
        self.give(self.home, self.first)
        self.home.chmod(0o700)
        self.before = self.look()

    def tearDown(self):
        self.assertEqual(self.look(), self.before, "files of the first user have changed")
        super().tearDown()

    def give(self, root, user):
        for path in (root, *root.rglob("*")):
            os.lchown(path, user, user)

    def look(self):
        return {str(path): (path.read_bytes() if path.is_file() else b"", stat.filemode(path.lstat().st_mode), path.lstat().st_uid)
                for path in sorted(self.precious.rglob("*"))}

    def places_of_the_first(self):
        return [Path(base, f"trireme-{self.first}") for base in ("/dev/shm", "/tmp")]

    def remove_shared(self):
        for place in self.places_of_the_first():
            if place.is_symlink() or place.is_file():
                place.unlink()
            shutil.rmtree(place, ignore_errors=True)

    def run_as(self, user, line, **more):
        environment = {**os.environ, "HOME": str(self.home), "TMPDIR": "/tmp"}
        return subprocess.run([str(word) for word in line], user=user, group=user, extra_groups=[], env=environment,
                              cwd=self.shared, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240, **more)

    def lay(self, script):
        """The second user, in the shared folder; $precious is the first's."""
        done = self.run_as(self.second, ["env", f"precious={self.precious}", "sh", "-ec", script])
        self.assertEqual(done.returncode, 0, done.stderr)

    def call(self, *words):
        """A command of the first user; what it prints never has a secret."""
        done = self.run_as(self.first, [self.trireme, *words])
        self.assertNotIn(SECRET.decode(), done.stdout + done.stderr)
        return done

    def check_refused(self, words, *command):
        done = self.call(*command)
        self.assertEqual(done.returncode, 2, f"{command}:\n{done.stdout}{done.stderr}")
        self.assertRegex(done.stderr, words)

    def check_nothing_leaked(self, folder):
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_relative_to(self.precious):
                self.assertNotIn(SECRET, path.read_bytes(), path)

    def supervised(self, out, *keys):
        sets = [part for key in keys for part in ("--set", key)]
        return ["run", self.home / "job.toml", "--out", out, "--mpirun", OPTIONS.mpiexec, "--ranks", "2", "--max-restarts", "0",
                *sets, "--", "--oversubscribe", "--bind-to", "none"]

    def test_a_job_goes_through_and_the_second_can_read_nothing_of_it_in_shared_memory(self):
        keys = ("checkpoint.partner=true", "checkpoint.every=5", "train.steps=20")
        reader = ("while :; do find /dev/shm /tmp -user {first} -type f -readable -exec sh -c 'test -s \"$1\" && echo \"$1\"' - {{}} \\; "
                  "2>/dev/null | grep -v {folder}; sleep 0.01; done")
        spy = subprocess.Popen(["sh", "-c", reader.format(first=self.first, folder=self.folder)], user=self.second,
                               group=self.second, extra_groups=[], stdout=subprocess.PIPE, text=True)
        try:
            done = self.call(*self.supervised(self.home / "out", *keys))
        finally:
            spy.kill()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(spy.communicate()[0], "", "the second user can read these")

    def test_folders_of_this_user_in_shared_memory_that_another_made(self):
        for place, key in zip(self.places_of_the_first(), ("checkpoint.partner=true", "train.steps=4")):
            for script in (f"ln -s $precious {place}", f"mkdir -m 777 {place}; ln -s $precious {place}/run",
                           f"echo text > {place}; chmod 666 {place}"):
                with self.subTest(script):
                    self.remove_shared()
                    shutil.rmtree(self.home / "out", ignore_errors=True)
                    self.lay(script)
                    done = self.call(*self.supervised(self.home / "out", key, "checkpoint.every=2", "train.steps=4"))
                    self.assertIn(str(place), done.stderr + done.stdout)
                    self.assertRegex(done.stderr + done.stdout, f"{FOREIGN}|is not a folder")
                    of_first = [path for path in place.rglob("*") if path.lstat().st_uid == self.first and not path.is_relative_to(self.precious)]
                    self.assertEqual([] if place.is_symlink() else of_first, [], "files of the first where the second can exchange them")

    def test_partner_folders_whose_parents_others_can_exchange(self):
        self.lay("mkdir -m 777 open")
        self.check_refused("other users can write|" + FOREIGN, "train", self.home / "job.toml", "--out", self.home / "out", "--set",
                           "checkpoint.partner=true", "--set", "checkpoint.every=2", "--set", f"checkpoint.partner_folder={self.shared}/open/partner")

    def test_output_folders_that_another_laid_out(self):
        text = self.home / "text.txt"
        text.write_text("a text of the first user\n" * 200)
        os.chown(text, self.first, self.first)
        made = self.call("train", self.home / "job.toml", "--out", self.home / "made", "--set", "train.steps=2")
        self.assertEqual(made.returncode, 0, made.stderr)
        laid = {"link": "ln -s $precious out",
                "folder": "mkdir -m 777 out; ln -s $precious out/checkpoints; for name in .lock .supervisor metrics.jsonl config.toml "
                          "summary.json rollbacks.jsonl supervisor.jsonl train.bin dataset.json; do ln -s $precious/secret out/$name; done"}
        laid["link below a folder"] = "mkdir -m 755 theirs; ln -s $precious theirs/out"
        for name, script in laid.items():
            out = "theirs/out" if "theirs" in script else "out"
            for mode in (0o1777, 0o777):
                for command in (["train", self.home / "job.toml", "--out", out], self.supervised(out),
                                ["data", "text", text, "--out", out],
                                ["export", self.home / "made", "--format", "hf", "--out", out]):
                    with self.subTest(laid=name, mode=oct(mode), command=command[0]):
                        self.shared.chmod(mode)
                        subprocess.run(["rm", "-rf", self.shared / "out", self.shared / "theirs"], check=True)
                        self.lay(script)
                        done = self.call(*command)
                        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                        self.assertRegex(done.stderr, f"{FOREIGN}|is there already")

    def test_files_that_another_laid_where_results_are_to_be(self):
        self.call("train", self.home / "job.toml", "--out", self.home / "made", "--set", "train.steps=2")
        self.lay("ln -s $precious/secret file.html; ln -s $precious/secret model.safetensors; ln -s $precious/secret run.prom")
        report = ("report", self.home / "made", "--out", "file.html")
        export = ("export", self.home / "made", "--out", "model.safetensors")
        for command in (report, export):
            self.check_refused("there already|is a link|not written by", *command)
        # With --force, and for log.prometheus, the link is replaced by a file of the first: tearDown looks where it led to.
        self.shared.chmod(0o777)
        for command in ((*report, "--force"), (*export, "--force"),
                        ("train", self.home / "job.toml", "--out", self.home / "again", "--set", f"log.prometheus={self.shared}/run.prom")):
            done = self.call(*command)
            self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("file.html", "model.safetensors", "run.prom"):
            self.assertFalse((self.shared / name).is_symlink(), name)

    def test_outputs_behind_a_link_of_another(self):
        for name in ("made", "kept"):
            self.call("train", self.home / "job.toml", "--out", self.home / name, "--set", "train.steps=2", "--set", "checkpoint.every=1")
        self.lay(f"ln -s $precious lnk; ln -s {self.home}/kept run; mkdir theirs; ln -s {self.home}/kept/checkpoints theirs/checkpoints")
        made = self.home / "made"
        for command in (("export", made, "--format", "hf", "--out", "lnk", "--force"), ("export", made, "--out", "lnk/model.safetensors", "--force"),
                        ("export", made, "--format", "hf", "--out", "lnk/new"), ("report", made, "--out", "lnk/r.html", "--force"),
                        ("train", self.home / "job.toml", "--out", self.home / "out", "--set", f"log.prometheus={self.shared}/lnk/m.prom"),
                        ("checkpoint", "prune", "run", "--keep", "1"), ("checkpoint", "prune", "theirs", "--keep", "1")):
            with self.subTest(command=command):
                self.check_refused(FOREIGN, *command)
        self.assertTrue((self.home / "kept/checkpoints/step-000001").is_dir())

    def test_data_of_another(self):
        self.lay("mkdir texts; yes 'a text of the second user' | head -n 400 > texts/a.txt; ln -s $precious/secret texts/b.txt;"
                 "ln -s $precious texts/more; mkdir -p pictures/cat pictures/dog; ln -s $precious/secret pictures/cat/a.jpg; "
                 "chmod -R a+rX texts pictures")
        done = self.call("data", "text", self.shared / "texts", "--out", self.home / "data")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("link", done.stderr)
        self.check_nothing_leaked(self.home / "data")
        for name in (f"{self.precious}/secret", "../home/precious/secret", "tokenizer.model"):
            with self.subTest(tokenizer=name):
                self.lay("rm -rf data; mkdir data")
                for file in (self.home / "data").iterdir():
                    shutil.copy(file, self.shared / "data" / file.name)
                info = self.shared / "data" / "dataset.json"
                info.write_text(json.dumps({**json.loads(info.read_text()), "tokenizer": "sentencepiece", "tokenizer_model": name}))
                if name == "tokenizer.model":
                    self.lay("ln -s $precious/secret data/tokenizer.model")
                out = self.home / f"trained from {name.replace('/', ' ')}"
                done = self.call("train", self.home / "job.toml", "--out", out, "--set", "data.kind=tokens",
                                "--set", f"data.train={self.shared}/data/train.bin", "--set", "train.steps=2", "--set", "model.vocab=256")
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.check_nothing_leaked(out)

    def test_runs_of_another_to_look_at(self):
        self.call("train", self.home / "job.toml", "--out", self.home / "made", "--set", "train.steps=2")
        self.lay("mkdir -p runs/theirs; for name in metrics.jsonl summary.json config.toml supervisor.jsonl; do "
                 "ln -s $precious/secret runs/theirs/$name; done; mkdir runs/copied")
        for name in ("metrics.jsonl", "summary.json"):
            self.lay(f"ln -s {self.home}/made/{name} runs/copied/{name}")
        done = self.call("report", self.shared / "runs", "--out", self.home / "report.html")
        self.assertIn(done.returncode, (0, 2), done.stderr)
        self.check_nothing_leaked(self.home)
        page, state = self.home / "report.html", json.loads((self.home / "made" / "summary.json").read_text())["state_hash"]
        self.assertNotIn(state, page.read_text() if page.exists() else "", "a link out of the run's folder was followed")
        self.call("report", self.home / "made", "--out", self.home / "own.html")
        self.assertIn(state, (self.home / "own.html").read_text(), "a report has it")


if __name__ == "__main__":
    main()
