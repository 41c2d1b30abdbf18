// dataset.json.
#include "runtime/data/dataset_info.h"

#include "tests/fuzz/reader.h"
#include "tests/support/temporary_folder.h"

namespace trireme::fuzz {
namespace {

int fuzz_dataset_info(const std::uint8_t* data, std::size_t size) {
  input_file(DatasetInfo::kFileName, as_text(data, size));
  taken([] { read_dataset_info(scratch_folder()); });
  return 0;
}

std::vector<std::string> descriptions() {
  std::vector<std::string> texts;
  for (const char* tokenizer : {"bytes", "sentencepiece"}) {
    write_dataset_info({.tokenizer = tokenizer,
                        .tokenizer_model = "tokenizer.model",
                        .vocab_size = 256,
                        .train_tokens = 1000,
                        .source_files = 2},
                       scratch_folder());
    texts.push_back(testing::read_file(scratch_folder() / DatasetInfo::kFileName));
  }
  return texts;
}

}  // namespace

const Reader kDatasetInfo{"dataset_info", fuzz_dataset_info, descriptions};

}  // namespace trireme::fuzz
