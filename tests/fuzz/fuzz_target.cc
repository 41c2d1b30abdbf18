// The entries of libFuzzer, compiled once for every reader.
#include <algorithm>

#include "tests/fuzz/reader.h"

namespace {

const trireme::fuzz::Reader& chosen_reader() {
  static const trireme::fuzz::Reader& reader = trireme::fuzz::find_reader(TRIREME_FUZZ_READER);
  return reader;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return chosen_reader().fuzz_one(data, size);
}

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  const auto change = chosen_reader().change;
  trireme::fuzz::Random random(std::uint64_t{seed});
  if (change == nullptr || random.one_in(3)) return LLVMFuzzerMutate(data, size, max_size);
  std::string text(trireme::fuzz::as_text(data, size));
  change(text, random);
  const std::size_t bytes = std::min(text.size(), max_size);
  std::copy_n(text.begin(), bytes, data);
  return bytes;
}
