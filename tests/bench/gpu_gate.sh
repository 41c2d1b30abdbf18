#!/usr/bin/env bash
# Runs one part of the checks that need a GPU, inside an unpacked bundle (third_party/bundle.sh).
#
#   trireme-bundle/tests/bench/gpu_gate.sh --part PART [--out DIR] [--dry-run] | --help
#
#   probe         run it first, 5 minutes: the machine, its rates, each call of a step, a step with and without a graph
#   tests         communicators, GPT and ResNet on the GPU, compared with the CPU
#   conformance   every kernel, compared with double precision
#   layouts       trireme train in 15 layouts whose ranks share the card, resumed from each other: one hash
#   state         equal bits on 1, 2 and 4 ranks, twice, and with a CUDA graph; predicted memory; losses of the CPU
#   bench-gpt     tokens/s of GPT-2, compared with PyTorch, compiled and with fused AdamW; time without a kernel
#   bench-resnet  images/s of ResNet-50, compared with PyTorch, compiled and channels-last
#   table         ten jobs of published sizes (card_table.py), 9 minutes: GPT-2, Llama, BERT, ViT, compared with PyTorch
#   foresight     doctor --measure, and step times foreseen for the ten jobs, compared with measured; the kernels of rows
#                 below their aims
#   sanitize      the tests under compute-sanitizer
#
# Parts can run in any order. Each is stopped after 8 minutes, `table` after 9; all together take at most 76 minutes. With
# a GPU for half an hour, run probe, tests, bench-gpt and state, in this order.
# --dry-run runs a part without a GPU: the same stages on the CPU with tiny shapes.
# --out: folder of PART.json (the results of each stage) and PART.tar.gz (the logs); default: gate. Both are rewritten
# after every stage, so that a part that is stopped keeps its results. Their `commit` names the source of the bundle.
# Exit codes: 0 success, 1 a stage failed, was skipped or missed its bar, 2 bad arguments, 75 stopped, 77 no device. In
# a dry run skipped stages do not fail. gate/check.py defines the bars. On Hopper GPUs the part fails if 16-bit attention
# or convolutions fall back to native kernels.
# Environment: TRIREME_GATE_SECONDS  time for the part (default 300 for probe, 540 for table, 465 for others)
#              TRIREME_GATE_SCALE    width of the ten jobs' models in a dry run (default 1)
#              TRIREME_GATE_CLUSTER  a cluster file for foresight, in place of a measurement
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
  probe | tests | conformance | layouts | state | bench-gpt | bench-resnet | table | foresight | sanitize) ;;
  *) usage "--part is one of probe, tests, conformance, layouts, state, bench-gpt, bench-resnet, table, foresight, sanitize" ;;
esac
[ -x "$bundle/run" ] || { echo "gpu_gate.sh: $bundle is not an unpacked bundle" >&2; exit 2; }
if ! mkdir -p "$out" || ! out=$(cd "$out" && pwd); then exit 2; fi
python=${TRIREME_GATE_PYTHON:-python3}
case $part in
  probe) seconds=300 ;;
  table) seconds=540 ;;
  *) seconds=465 ;;
esac
seconds=${TRIREME_GATE_SECONDS:-$seconds}

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
