#!/bin/sh
# Runs a Python script under an interpreter that has PyTorch: tests/parity/torch_python.sh SCRIPT [ARGUMENTS].
#
# The distribution's interpreter is tried first, because its package installs PyTorch there; TRIREME_TORCH_PYTHON
# overrides it. Without PyTorch the exit code is 77, which CTest counts as skipped, or 1 under CI=true.
for python in "${TRIREME_TORCH_PYTHON:-}" /usr/bin/python3 python3; do
  if [ -n "$python" ] && "$python" -c 'import torch' 2>/dev/null; then
    exec "$python" "$@"
  fi
done

reason="no Python here has PyTorch; on Debian: apt-get install python3-torch, elsewhere set TRIREME_TORCH_PYTHON"
if [ "${CI:-}" = true ]; then
  echo "$reason (with CI=true that is a failure)"
  exit 1
fi
# GoogleTest's report format, so that the summary counts and lists it.
printf '%s: Skipped\n%s\n[  SKIPPED ] %s (0 ms)\n[  SKIPPED ] 1 test, listed below:\n' "$0" "$reason" "${1##*/}"
exit 77
