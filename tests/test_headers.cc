// Nothing: the target test_headers compiles the header that all tests share.
