# Reads CTest's LastTest.log (the whole output of every test) and counts GoogleTest cases; a test that is not a
# GoogleTest program, or that died before it could report, counts as one. Prints the skipped cases with their reasons,
# the tests that failed and, last, "N passed, N failed, N skipped".
#
#   awk -v failed_list=LastTestsFailed.log -v ctest_status=0 -f summary.awk LastTest.log
#
# Failures are CTest's word: its list of failed tests, "12:name" a line. Under mpirun every rank reports the same
# cases, so the largest count of a test's ranks is taken.

function max(a, b) { return a > b ? a : b }

function finish_test() {
  if (name == "") return
  if (name in is_failed) {
    failed = max(failed, 1)
    failures[++num_failures] = name
    delete is_failed[name]
  } else if (passed + failed + skipped == 0) {
    passed = 1
  }
  total_passed += passed; total_failed += failed; total_skipped += skipped
  name = ""
}

BEGIN {
  while (failed_list != "" && (getline line < failed_list) > 0) {
    sub(/^[0-9]+:/, "", line)
    if (line != "") is_failed[line] = 1
  }
}

/^[0-9]+\/[0-9]+ Test: / {
  finish_test()
  name = $0
  sub(/^[0-9]+\/[0-9]+ Test: /, "", name)
  passed = failed = skipped = in_reason = 0
}

/^\[  PASSED  \] [0-9]+ tests?\./ { passed = max(passed, $4) }
/^\[  FAILED  \] [0-9]+ tests?, listed below/ { failed = max(failed, $4) }
/^\[  SKIPPED \] [0-9]+ tests?, listed below/ { skipped = max(skipped, $4) }

# GoogleTest prints the reason between "file:line: Skipped" and "[  SKIPPED ] Suite.Name (0 ms)".
/: Skipped$/ { reason = ""; in_reason = 1; next }
in_reason && /^\[  SKIPPED \]/ {
  if (!((name, $4) in reported)) reasons[++num_reasons] = name ": " $4 ": " (reason == "" ? "no reason given" : reason)
  reported[name, $4] = 1
  in_reason = 0
}
in_reason && NF { reason = reason (reason == "" ? "" : " ") $0 }

END {
  finish_test()
  # Tests that never ran, such as a program that was not built, are in the list only.
  for (name in is_failed) {
    failures[++num_failures] = name
    ++total_failed
  }
  # The exit code and the last line must never disagree.
  if (ctest_status && !total_failed) {
    failures[++num_failures] = "ctest itself, see above"
    ++total_failed
  }
  for (i = 1; i <= num_reasons; ++i) print "skipped: " reasons[i]
  for (i = 1; i <= num_failures; ++i) print "FAILED: " failures[i]
  printf "%d passed, %d failed, %d skipped\n", total_passed, total_failed, total_skipped
}
