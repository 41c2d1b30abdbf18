#include "runtime/data/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/file_format.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are mapped, not converted");

using Header = std::array<std::int32_t, 256>;
static_assert(sizeof(Header) == kTokenFileHeaderBytes);

constexpr std::int64_t file_bytes(const TokenLayout& layout, std::int64_t num_tokens) {
  return kTokenFileHeaderBytes + num_tokens * layout.token_bytes;
}

/// Calls use(span of uint16 or uint32) for the tokens of a file.
template <class Use>
auto with_tokens(const TokenFile& file, const Use& use) {
  const std::byte* data = file.token_bytes().data();
  const auto count = static_cast<std::size_t>(file.num_tokens());
  if (file.layout().token_bytes == kTokens16.token_bytes) {
    return use(std::span(reinterpret_cast<const std::uint16_t*>(data), count));
  }
  return use(std::span(reinterpret_cast<const std::uint32_t*>(data), count));
}

}  // namespace

const TokenLayout& TokenLayout::of_vocab(std::int64_t vocab_size) {
  return vocab_size <= kTokens16.max_vocab ? kTokens16 : kTokens32;
}

TokenFile::TokenFile(const std::filesystem::path& path)
    : identity_(FileIdentity::of(path)), file_(path, "token file") {
  const std::string name = path.string();
  const auto bytes = file_.bytes();
  const auto size = static_cast<std::int64_t>(bytes.size());
  TRIREME_CHECK(size > 0, "token file {} is empty (0 bytes)", name);
  TRIREME_CHECK(
      size >= static_cast<std::int64_t>(sizeof(std::int32_t)),
      "token file {} has {} bytes, fewer than its header of {} bytes. Make one of text with `trireme "
      "data text INPUT... --out DIR`",
      name, size, kTokenFileHeaderBytes);
  Header header{};
  std::memcpy(header.data(), bytes.data(), std::min<std::size_t>(bytes.size(), sizeof header));
  layout_ = header[0] == kTokens32.magic ? &kTokens32 : &kTokens16;
  const FileFormat format = recognise_format(bytes);
  TRIREME_CHECK(format == FileFormat::kUnknown, "token file {} is {}: {}", name, name_of(format),
                advice_for(format, path));
  TRIREME_CHECK(header[0] == layout_->magic,
                "{} is not a token file: its first word is {} where {} is expected, or {} for 32-bit tokens. "
                "Make one with `trireme data text INPUT... --out DIR`",
                name, header[0], kTokens16.magic, kTokens32.magic);
  TRIREME_CHECK(size >= kTokenFileHeaderBytes,
                "token file {} is truncated: it has {} bytes, fewer than its header of {} bytes", name, size,
                kTokenFileHeaderBytes);
  TRIREME_CHECK(header[1] == layout_->version, "token file {} has version {}, this build reads version {}",
                name, header[1], layout_->version);
  TRIREME_CHECK(header[2] > 0, "token file {} has no tokens: its header counts {}", name, header[2]);
  const std::int64_t expected = file_bytes(*layout_, header[2]);
  TRIREME_CHECK(size == expected,
                "token file {} is {}: its header counts {} tokens, which take {} bytes, and it has {} bytes",
                name, size < expected ? "truncated" : "damaged", header[2], expected, size);
  num_tokens_ = header[2];
}

void TokenFile::read(std::int64_t first, std::int64_t count, std::int32_t* to) const {
  with_tokens(*this, [&](const auto& tokens) {
    const auto part = tokens.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    std::copy(part.begin(), part.end(), to);
  });
}

std::int64_t TokenFile::max_token() const {
  return with_tokens(*this, [](const auto& tokens) -> std::int64_t {
    // A plain loop vectorises; std::max_element does not.
    auto largest = tokens[0];
    for (const auto token : tokens) largest = std::max(largest, token);
    return largest;
  });
}

void TokenFile::check_vocab(std::int64_t vocab_size) const {
  const std::int64_t largest = vocab_size >= layout_->max_vocab ? 0 : max_token();
  if (largest < vocab_size) return;
  const auto [position, token] = with_tokens(*this, [vocab_size](const auto& tokens) {
    const auto first =
        std::find_if(tokens.begin(), tokens.end(), [&](std::int64_t id) { return id >= vocab_size; });
    return std::pair<std::int64_t, std::int64_t>(first - tokens.begin(), *first);
  });
  throw Error(ErrorCode::kInvalidInput,
              "token file {}: token {} at position {} is not below the vocabulary size {} "
              "(largest token of the file: {}); set TokenDataset::Options::vocab_size to "
              "more than that, or prepare the data with the tokenizer that the model is meant for",
              path().string(), token, position, vocab_size, largest);
}

void TokenFile::check_unchanged() const {
  if (!identity_) return;  // the identity was not available at the start
  const std::string change = describe_change(*identity_, FileIdentity::of(path(), identity_));
  if (change.empty()) return;
  throw Error(ErrorCode::kRuntime,
              "token file {} {}, while the run reads it: restore it and start again, to resume; "
              "new data is for a new run",
              path().string(), change);
}

TokenFileWriter::TokenFileWriter(const std::filesystem::path& path, const TokenLayout& layout)
    : file_(path), layout_(layout) {
  const Header header{};  // filled in by commit()
  file_.writer().append(std::as_bytes(std::span(header)));
}

void TokenFileWriter::append(std::span<const std::int32_t> tokens) {
  if (layout_.token_bytes == kTokens32.token_bytes) return append_stored(std::as_bytes(tokens));
  const std::vector<std::uint16_t> narrow(tokens.begin(), tokens.end());
  append_stored(std::as_bytes(std::span(narrow)));
}

void TokenFileWriter::append_stored(std::span<const std::byte> tokens) {
  const std::int64_t count = static_cast<std::int64_t>(tokens.size()) / layout_.token_bytes;
  TRIREME_CHECK(num_tokens_ + count <= kMaxTokensPerFile,
                "token file {} would exceed {} tokens, the most that its header can count; split the input "
                "over several runs and train on a folder of shards",
                file_.path().string(), kMaxTokensPerFile);
  file_.writer().append(tokens);
  num_tokens_ += count;
}

void TokenFileWriter::move_tail(std::int64_t num_tokens, TokenFileWriter& target) {
  TRIREME_CHECK(num_tokens >= 0 && num_tokens <= num_tokens_, "cannot keep {} of the {} tokens of {}",
                num_tokens, num_tokens_, file_.path().string());
  file_.writer().flush();
  {
    const MappedFile written(file_.writer().path(), "temporary token file");
    target.append_stored(written.bytes().subspan(static_cast<std::size_t>(file_bytes(layout_, num_tokens))));
  }
  file_.writer().truncate(static_cast<std::uint64_t>(file_bytes(layout_, num_tokens)));
  num_tokens_ = num_tokens;
}

void TokenFileWriter::commit() {
  TRIREME_CHECK(num_tokens_ > 0, "token file {} would have no tokens", file_.path().string());
  Header header{};
  header[0] = layout_.magic;
  header[1] = layout_.version;
  header[2] = static_cast<std::int32_t>(num_tokens_);
  file_.writer().overwrite(0, std::as_bytes(std::span(header)));
  file_.commit();
}

}  // namespace trireme
