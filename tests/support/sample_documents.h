// Documents of many lengths, for tests that train on them.
#pragma once

#include <filesystem>
#include <vector>

#include "runtime/data/document_file.h"

namespace trireme::testing {

struct SampleDocuments {
  std::int32_t count = 21;
  std::int32_t max_tokens = 11;
  std::int32_t vocab = 36;  // ids are below it
  std::int32_t classes = 3;
};

/// Writes a `.bin` file and its documents, of 1 to max_tokens tokens in two segments, with every label.
/// Returns `path`.
inline std::filesystem::path write_sample_documents(const std::filesystem::path& path,
                                                    const SampleDocuments& sample) {
  std::vector<Document> documents;
  TokenFileWriter tokens(path, kTokens16);
  for (std::int32_t i = 0; i < sample.count; ++i) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(1 + i * 7 % sample.max_tokens));
    for (std::size_t t = 0; t < ids.size(); ++t) {
      ids[t] = (i * 13 + static_cast<std::int32_t>(t * t)) % sample.vocab;
    }
    tokens.append(ids);
    const auto length = static_cast<std::int32_t>(ids.size());
    documents.push_back(
        {.num_tokens = length, .first_segment = (length + 1) / 2, .label = i % sample.classes});
  }
  tokens.commit();
  write_documents(path, documents);
  return path;
}

}  // namespace trireme::testing
