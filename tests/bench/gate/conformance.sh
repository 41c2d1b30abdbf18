# Every kernel and library call against double precision, in every dtype and gradient mode.

if [ "$device" = cuda ]; then
  TRIREME_TEST_LOGS=$logs/tests
  stage conformance 420 "$bundle/run-tests" gpu '^cuda_conformance'
else
  skip conformance "dry run"
fi
