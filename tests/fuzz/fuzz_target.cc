// The entry of libFuzzer, compiled once for every reader.
#include "tests/fuzz/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const trireme::fuzz::Reader& reader = trireme::fuzz::find_reader(TRIREME_FUZZ_READER);
  return reader.fuzz_one(data, size);
}
