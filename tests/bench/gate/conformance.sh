# Every kernel and library call against double precision, in every dtype and gradient mode. Most of the time is the
# reference's, on a CPU: some processes share the cases, and the card.

conformance() {
  TRIREME_TEST_LOGS=$logs/tests/$GTEST_SHARD_INDEX "$bundle/run-tests" gpu '^cuda_conformance'
}

if [ "$device" = cuda ]; then
  stage conformance 420 in_shards 4 conformance
else
  skip conformance "dry run"
fi
