// Ends and labels of documents, beside a token shard of 12 tokens.
#include "runtime/data/document_file.h"

#include "runtime/data/document_dataset.h"
#include "tests/fuzz/reader.h"
#include "tests/support/temporary_folder.h"

namespace trireme::fuzz {
namespace {

constexpr std::int64_t kTokens = 12;

void write_tokens(const std::filesystem::path& path) {
  TokenFileWriter writer(path, kTokens16);
  writer.append(std::vector<std::int32_t>(kTokens, 5));
  writer.commit();
}

int fuzz_document_file(const std::uint8_t* data, std::size_t size) {
  input_file("rows.documents", as_text(data, size));
  const std::filesystem::path path = scratch_folder() / "rows.bin";
  write_tokens(path);
  for (const bool pack : {false, true}) {
    taken([&] {
      const DocumentDataset set({.path = path,
                                 .sequence_length = 6,
                                 .pack = pack,
                                 .class_token = 6,
                                 .targets = DocumentDataset::Targets::kLabels,
                                 .seed = 1,
                                 .vocab_size = 7});
      const std::int64_t all = set.num_samples();
      require(set.num_train_targets(0, all) == set.num_sequential_targets(0, all),
              "an epoch has not every document once");
      set.read_train(0, 3);
      set.read_sequential(all - 1, 1);
    });
  }
  return 0;
}

std::vector<std::string> documents() {
  std::vector<std::string> files;
  for (const int count : {1, 3, 12}) {
    const std::int32_t each = static_cast<std::int32_t>(kTokens) / count;
    write_documents(scratch_folder() / "seed.bin",
                    std::vector<Document>(static_cast<std::size_t>(count),
                                          {.num_tokens = each, .first_segment = each / 2, .label = 1}));
    files.push_back(testing::read_file(scratch_folder() / "seed.documents"));
  }
  return files;
}

}  // namespace

const Reader kDocumentFile{"document_file", fuzz_document_file, documents};

}  // namespace trireme::fuzz
