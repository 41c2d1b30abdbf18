#!/usr/bin/env bash
# Measures the documented gain of each optimisation on this machine and writes out/reproduce/report.html: mixed
# precision, recompute, ZeRO, pipeline schedules, accumulation, input pipeline, scaling. Installs missing packages and
# builds first. Each experiment is a file in examples/reproduce. Takes about 20 minutes on two cores after the build.
#
#   examples/reproduce.sh [--quick | --full] [--only NAME...] [--list] [--resume] [--gpu [--dry-run]] [--peer PYTHON]
#                         [--keep] [--compare OLD.json] [--out DIR]
#
# --gpu runs the experiments of a GPU, in less than 8 minutes; in an unpacked bundle it installs and builds nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -x trireme ]; then  # an unpacked bundle (third_party/bundle.sh): nothing to install or to build
  exec "${TRIREME_PYTHON:-python3}" -B tests/bench/reproduce "$@" </dev/null
fi

# Debian's Python, for which Debian packages matplotlib.
python=${TRIREME_PYTHON:-/usr/bin/python3}
for word in "$@"; do  # options that need neither packages nor a build
  case $word in
  -h | --help | --list) [ ! -x "$python" ] || exec "$python" tests/bench/reproduce "$@" ;;
  esac
done

third_party/install.sh --report </dev/null

echo "reproduce: building"
[ -e build/release/build.ninja ] ||
  cmake --preset release -DTRIREME_BUILD_TESTS=OFF -DTRIREME_BUILD_EXAMPLES=OFF </dev/null >/dev/null
cmake --build build/release --target trireme </dev/null

exec "$python" tests/bench/reproduce "$@" </dev/null
