#!/usr/bin/env bash
# The facts that only a GPU can show, a part at a time, inside of an unpacked bundle (third_party/bundle.sh).
#
#   trireme-bundle/tests/bench/gpu_gate.sh --part PART [--out DIR] [--dry-run] | --help
#
#   probe         first, 5 minutes: the machine, its rates, every call of a step by itself, a step recorded and not
#   tests         the communicators, GPT and ResNet on the card, beside the CPU
#   conformance   every kernel against double precision
#   state         the same bits on 1, 2 and 4 ranks, twice, and from a recorded step; predicted memory; CPU's losses
#   bench-gpt     GPT-2's tokens/s beside PyTorch's, compiled and with fused AdamW; share of a step without a kernel
#   bench-resnet  ResNet-50's images/s beside PyTorch's, compiled and channels-last
#   sanitize      the tests under compute-sanitizer
#
# Each is cut off after 8 minutes, and parts run in any order. All
# together may take 51 minutes, by their limits. Who has a card for half an hour runs, in this order,
# probe, tests, bench-gpt, state.
# --dry-run tries a part without a GPU: the same stages on the CPU in tiny shapes.
# --out is where PART.json and PART.tar.gz go (default: gate): what each stage found, and their logs. Both are written
# anew after every stage, so that a part which is cut off leaves what it measured. `commit`: what the bundle is made of.
# Exit codes: 0 shown, 1 a stage failed, was skipped or missed its bar, 2 bad arguments, 75 cut off, 77 no device. In a
# dry run what is skipped has not failed. gate/check.py has the bars. On a Hopper card 16-bit attention and convolutions
# fail the part where they fall back to native kernels.
# Environment: TRIREME_GATE_SECONDS  time for the part (default 300 for probe, 465 for others)
#              TRIREME_GATE_PYTHON   a python3 with torch (default: python3)
set -uo pipefail
# Stages run functions in a separate shell, which `timeout` can end, so everything is exported.
set -a

help() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"; }
usage() {
  echo "gpu_gate.sh: $1" >&2
  help >&2
  exit 2
}
part= out=gate device=cuda
while [ $# != 0 ]; do
  case $1 in
    --part | --out)
      [ -n "${2:-}" ] || usage "$1 needs a value"
      if [ "$1" = --part ]; then part=$2; else out=$2; fi
      shift
      ;;
    --dry-run) device=cpu ;;
    --help | -h) help && exit ;;
    *) usage "unknown argument '$1'" ;;
  esac
  shift
done
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/gate" && pwd)
bundle=$(cd "$folder/../../.." && pwd)
case $part in
  probe | tests | conformance | state | bench-gpt | bench-resnet | sanitize) ;;
  *) usage "--part is one of probe, tests, conformance, state, bench-gpt, bench-resnet, sanitize" ;;
esac
[ -x "$bundle/run" ] || { echo "gpu_gate.sh: $bundle is no unpacked bundle" >&2; exit 2; }
if ! mkdir -p "$out" || ! out=$(cd "$out" && pwd); then exit 2; fi
python=${TRIREME_GATE_PYTHON:-python3}
seconds=${TRIREME_GATE_SECONDS:-$([ "$part" = probe ] && echo 300 || echo 465)}

# shellcheck source=gate/stages.sh
source "$folder/stages.sh"
# shellcheck source=gate/jobs.sh
source "$folder/jobs.sh"
begin_part
stage doctor 60 "$bundle/run" trireme doctor --json --no-measure
find_card
# shellcheck source=/dev/null
source "$folder/$part.sh"
end_part
