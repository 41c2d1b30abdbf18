# Everything that calls the card, in small cases, for memory; the native kernels for races.

sanitizer=$(command -v compute-sanitizer ||
  ls /usr/local/cuda{,-*}/{bin,compute-sanitizer}/compute-sanitizer 2>/dev/null | head -n 1)
small='-*LongSums*:*CopiedOperands*:*OneThreadMeansOne*'
own='*LayerNorm*:*Attention*:*CrossEntropy*:*ColumnSum*:*Embedding*:*Optimizer*:*Elementwise*:*Dropout*:*LossScale*'
own+=':*Cast*:*Conv*:*BatchNorm*:*Pool*:*SoftTargets*'
# sanitize NAME SECONDS COMMAND...
sanitize() {
  if [ "$device" = cpu ]; then
    skip "$1" "dry run"
  elif [ -z "$sanitizer" ]; then
    skip "$1" "this machine has no compute-sanitizer"
  else
    stage "$@"
  fi
}
# Checks races between our own kernels' threads. racecheck also reports cuDNN's attention, whose copies and products
# wait at barriers in memory, and it ends with an internal error if restricted to some kernels. So it checks all
# kernels and prints all reports, and only reports that name our kernels count. A report without its summary proves
# nothing.
own_races() {
  local status report=$logs/$running-${GTEST_SHARD_INDEX:-all}.races
  "$bundle/run" $sanitizer --target-processes all --print-limit 1000000 --tool racecheck "$@" | tee "$report"
  status=${PIPESTATUS[0]}
  [ $status = 0 ] || return $status
  if ! grep -q 'RACECHECK SUMMARY' "$report" || grep -q 'Internal Sanitizer Error' "$report"; then
    echo "racecheck did not end well" >&2
    return 1
  fi
  ! grep 'Race reported.*trireme' "$report" >&2
}
# Libraries try features that a driver or card may lack, and continue without them. Our own calls check their errors.
memory="$sanitizer --target-processes all --error-exitcode 9 --tool memcheck --report-api-errors no"
# Kernels are checked as they are loaded. Loading all of NCCL's and cuBLASLt's kernels at once would take too long.
CUDA_MODULE_LOADING=LAZY
# shellcheck disable=SC2086  # commands of words
{
  sanitize sixteen_bit 45 "$bundle/run" $memory cuda_sixteen_bit_test
  sanitize gpt 60 "$bundle/run" $memory cuda_gpt_test
  sanitize resnet 60 "$bundle/run" $memory cuda_resnet_test
  sanitize nccl 60 "$bundle/run" mpirun -np 2 "$bundle/tests/comm/one_card.sh" $memory nccl_gpt
  sanitize races 70 own_races cuda_sixteen_bit_test
  sanitize conformance 120 in_shards 4 "$bundle/run" $memory cuda_conformance_test --gtest_filter="$small"
  sanitize conformance_races 240 in_shards 4 own_races cuda_conformance_test --gtest_filter="$own"
}
