"""Runs several jobs at once: jobs that wait for timeouts or for mpirun leave the cores to others.

Needs the Python standard library only.
"""
import concurrent.futures
import contextlib
import ctypes
import io
import multiprocessing
import signal
import sys
import time
import unittest

DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def end_with_parent():
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)


def at_once(action, items, count):
    """action(item) of each item, in the order in which they are done: in `count` processes that stay, each of which has
    what this one has now. Items begin in their order. Raises BrokenProcessPool where a process dies."""
    fork = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(count, fork, end_with_parent) as pool:
        futures = [pool.submit(action, item) for item in items]
        for future in concurrent.futures.as_completed(futures):
            yield future.result()


def run_test(name):
    """One test of the program, with what it says: whether it went well, its number of skips, the text."""
    text, begin = io.StringIO(), time.monotonic()
    suite = unittest.defaultTestLoader.loadTestsFromName(name, sys.modules["__main__"])
    with contextlib.redirect_stdout(text):
        result = unittest.TextTestRunner(text, verbosity=2).run(suite)
    text.write(f"{name}: {time.monotonic() - begin:.1f} s\n")
    return result.wasSuccessful() and result.testsRun > 0, len(result.skipped), text.getvalue()


def names_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from names_of(test)
        else:
            yield test.id().removeprefix("__main__.")


def run_tests_at_once(names, count, first):
    """Tests of the program that is run, `names` or all; those whose names contain one of `first` begin first. Returns
    whether all went well."""
    loader = unittest.defaultTestLoader
    program = sys.modules["__main__"]
    found = list(names_of(loader.loadTestsFromNames(names, program) if names else loader.loadTestsFromModule(program)))
    found.sort(key=lambda name: not any(word in name for word in first))
    good = skipped = 0
    for is_good, skips, text in at_once(run_test, found, count):
        print(text, flush=True)
        good, skipped = good + is_good, skipped + skips
    print(f"{len(found)} tests, {len(found) - good} failed, {skipped} skipped")
    return good == len(found) > 0
