# Every kernel and library call against double precision, in every dtype and gradient mode. Most of the time is the
# reference's, on a CPU: some processes share the cases, and the card.

conformance() {
  local shard shards=4 pid pids=() status=0
  for ((shard = 0; shard < shards; shard++)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard TRIREME_TEST_LOGS=$logs/tests/$shard \
      "$bundle/run-tests" gpu '^cuda_conformance' &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  return $status
}

if [ "$device" = cuda ]; then
  stage conformance 420 conformance
else
  skip conformance "dry run"
fi
