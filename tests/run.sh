#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests. The last line is "N passed, N failed, N skipped".
#
#   tests/run.sh [ctest options]         such as: tests/run.sh -R kernel_conformance -V
#
# Environment: TRIREME_PRESET  the CMake preset to build and test (default release)
#              TRIREME_LABELS  a regular expression of test labels (default unit|mpi|parity|example)
#              TRIREME_JOBS    parallel compilations and tests (default: the number of cores)
# Exit codes: 0 all passed, 1 a test or the build failed, 2 something is missing that could not be installed.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${TRIREME_PRESET:-release}
labels=${TRIREME_LABELS:-unit|mpi|parity|example}
jobs=${TRIREME_JOBS:-$(nproc)}
build=build/$preset

third_party/install.sh </dev/null

echo "run.sh: building preset '$preset' in $build with $jobs jobs"
{ cmake --preset "$preset" -B "$build" -DTRIREME_BUILD_TESTS=ON -DTRIREME_BUILD_EXAMPLES=ON && cmake --build "$build" -j "$jobs"; } </dev/null || {
  echo "run.sh: the build failed" >&2
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
}

# mpirun looks for X displays otherwise, and may wait for a name server: [Note: localhost] in launcher/host/name_lookup.h.
export HWLOC_COMPONENTS=${HWLOC_COMPONENTS:--gl}
echo "run.sh: testing labels $labels"
logs=$build/Testing/Temporary
rm -f "$logs/LastTest.log" "$logs/LastTestsFailed.log"
status=0
ctest --test-dir "$build" -L "^($labels)\$" -j "$jobs" --no-tests=error --output-on-failure "$@" </dev/null || status=1

failed_list=$logs/LastTestsFailed.log
[ -e "$failed_list" ] || failed_list=/dev/null
[ -e "$logs/LastTest.log" ] || touch "$logs/LastTest.log"
echo
awk -v failed_list="$failed_list" -v ctest_status="$status" -f tests/summary/summary.awk "$logs/LastTest.log"
exit "$status"
