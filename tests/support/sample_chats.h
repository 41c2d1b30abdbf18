// Conversations with marked targets, for tests that train on them.
#pragma once

#include <filesystem>
#include <vector>

#include "tests/support/sample_documents.h"

namespace trireme::testing {

/// write_sample_documents() with marks: two of three tokens are targets, in runs. Documents of one token have
/// no target. Returns `path`.
inline std::filesystem::path write_sample_chats(const std::filesystem::path& path,
                                                const SampleDocuments& sample) {
  write_sample_documents(path, sample);
  const DocumentFile file(path);
  TokenFileWriter marks(marks_of(path), kTokens16);
  for (std::size_t i = 0; i < file.documents().size(); ++i) {
    std::vector<std::int32_t> values;
    for (std::int32_t t = 0; t < file.documents()[i].num_tokens; ++t)
      values.push_back((t + static_cast<std::int32_t>(i)) % 3 > 0 && t > 0 ? 1 : 0);
    values.back() = values.size() > 1 ? 1 : 0;
    marks.append(values);
  }
  marks.commit();
  return path;
}

}  // namespace trireme::testing
