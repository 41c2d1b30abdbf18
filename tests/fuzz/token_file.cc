// Token shards.
#include "runtime/data/token_file.h"

#include "runtime/data/token_dataset.h"
#include "tests/fuzz/reader.h"
#include "tests/support/temporary_folder.h"

namespace trireme::fuzz {
namespace {

int fuzz_token_file(const std::uint8_t* data, std::size_t size) {
  const auto path = input_file("tokens.bin", as_text(data, size));
  taken([&] {
    constexpr std::int64_t kVocab = 300;
    const TokenFile file(path);
    const bool fits = taken([&] { file.check_vocab(kVocab); });
    require(fits == (file.max_token() < kVocab), "the check of the vocabulary is wrong");
  });
  taken([&] {
    const TokenDataset set({.path = path, .sequence_length = 4, .seed = 1});
    set.read_train(0, 3);
    set.read_train(std::int64_t{1} << 40, 1);
    set.read_sequential(set.num_samples() - 1, 1);
  });
  return 0;
}

std::vector<std::string> shards() {
  std::vector<std::string> files;
  for (const int count : {1, 5, 100}) {
    std::vector<std::int32_t> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(7 * i);
    TokenFileWriter writer(scratch_folder() / "seed.bin", kTokens16);
    writer.append(tokens);
    writer.commit();
    files.push_back(testing::read_file(scratch_folder() / "seed.bin"));
  }
  return files;
}

}  // namespace

const Reader kTokenFile{"token_file", fuzz_token_file, shards};

}  // namespace trireme::fuzz
