# The tests of the label gpu but the conformance suite. Names and limits come from the build.

if [ "$device" = cuda ]; then
  TRIREME_TEST_LOGS=$logs/tests
  stage sixteen_bit 90 "$bundle/run-tests" gpu '^cuda_sixteen_bit'
  stage models 180 "$bundle/run-tests" gpu '^cuda_(gpt|resnet)'
  stage communicators 200 "$bundle/run-tests" gpu '^(comm|nccl_gpt)'
else
  skip models "dry run"
fi
