#include "runtime/data/document_file.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"
#include "runtime/base/mapped_file.h"

namespace trireme {
namespace {

static_assert(sizeof(Document) == 3 * sizeof(std::int32_t));
using Header = std::array<std::int32_t, 256>;

void check(const Document& d, std::size_t index, const std::filesystem::path& path) {
  TRIREME_CHECK(
      d.num_tokens >= 1 && d.first_segment >= 0 && d.first_segment <= d.num_tokens && d.label >= -1,
      "{}: document {} has {} tokens, {} of them in its first segment, and the label {}: the file is "
      "damaged",
      path.string(), index, d.num_tokens, d.first_segment, d.label);
}

}  // namespace

std::filesystem::path documents_of(const std::filesystem::path& tokens) {
  return std::filesystem::path(tokens).replace_extension(".documents");
}

std::filesystem::path marks_of(const std::filesystem::path& tokens) {
  return std::filesystem::path(tokens).replace_extension(".targets");
}

DocumentFile::DocumentFile(const std::filesystem::path& tokens) : tokens_(tokens) {
  const std::filesystem::path path = documents_of(tokens);
  const MappedFile file(path, "documents");
  const auto bytes = file.bytes();
  Header header{};
  TRIREME_CHECK(bytes.size() >= sizeof header, "{} has {} bytes, too few for its header", path.string(),
                bytes.size());
  std::memcpy(header.data(), bytes.data(), sizeof header);
  TRIREME_CHECK(header[0] == kDocumentMagic && header[1] == kDocumentVersion && header[2] >= 1,
                "{} begins with {}, {}, {} instead of {}, {} and a number of documents", path.string(),
                header[0], header[1], header[2], kDocumentMagic, kDocumentVersion);
  const auto count = static_cast<std::size_t>(header[2]);
  TRIREME_CHECK(bytes.size() == sizeof header + count * sizeof(Document),
                "{} has {} bytes, but its {} documents need {}", path.string(), bytes.size(), count,
                sizeof header + count * sizeof(Document));
  documents_.resize(count);
  std::memcpy(documents_.data(), bytes.data() + sizeof header, count * sizeof(Document));
  std::int64_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    check(documents_[i], i, path);
    first_token_.push_back(at);
    at += documents_[i].num_tokens;
  }
  TRIREME_CHECK(at == tokens_.num_tokens(), "{} describes {} tokens, but {} has {}", path.string(), at,
                tokens.string(), tokens_.num_tokens());
}

std::int32_t DocumentFile::max_label() const {
  return std::ranges::max_element(documents_, {}, &Document::label)->label;
}

void write_documents(const std::filesystem::path& tokens, const std::vector<Document>& documents) {
  Header header{};
  header[0] = kDocumentMagic;
  header[1] = kDocumentVersion;
  header[2] = static_cast<std::int32_t>(documents.size());
  AtomicFile file(documents_of(tokens));
  file.writer().append(std::as_bytes(std::span(header)));
  file.writer().append(std::as_bytes(std::span(documents)));
  file.commit();
}

}  // namespace trireme
