#include "runtime/data/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "runtime/base/error.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are mapped, not converted");

using Header = std::array<std::int32_t, 256>;
static_assert(sizeof(Header) == kTokenFileHeaderBytes);

constexpr std::int64_t file_bytes(std::int64_t num_tokens) {
  return kTokenFileHeaderBytes + num_tokens * static_cast<std::int64_t>(sizeof(std::uint16_t));
}

}  // namespace

TokenFile::TokenFile(const std::filesystem::path& path)
    : identity_(FileIdentity::of(path)), file_(path, "token file") {
  const std::string name = path.string();
  const auto bytes = file_.bytes();
  const auto size = static_cast<std::int64_t>(bytes.size());
  TRIREME_CHECK(size > 0, "token file {} is empty (0 bytes)", name);
  TRIREME_CHECK(size >= static_cast<std::int64_t>(sizeof(std::int32_t)),
                "token file {} has {} bytes, fewer than its header of {} bytes", name, size,
                kTokenFileHeaderBytes);
  Header header{};
  std::memcpy(header.data(), bytes.data(), std::min<std::size_t>(bytes.size(), sizeof header));
  TRIREME_CHECK(header[0] == kTokenFileMagic,
                "{} is not a token file: its first word is {} where {} is expected. Make one with "
                "`trireme data text INPUT... --out DIR`",
                name, header[0], kTokenFileMagic);
  TRIREME_CHECK(size >= kTokenFileHeaderBytes,
                "token file {} is truncated: it has {} bytes, fewer than its header of {} bytes", name, size,
                kTokenFileHeaderBytes);
  TRIREME_CHECK(header[1] == kTokenFileVersion, "token file {} has version {}, this build reads version {}",
                name, header[1], kTokenFileVersion);
  TRIREME_CHECK(header[2] > 0, "token file {} has no tokens: its header counts {}", name, header[2]);
  const std::int64_t expected = file_bytes(header[2]);
  TRIREME_CHECK(size == expected,
                "token file {} is {}: its header counts {} tokens, which take {} bytes, and it has {} bytes",
                name, size < expected ? "truncated" : "damaged", header[2], expected, size);
  tokens_ = {reinterpret_cast<const std::uint16_t*>(bytes.data() + kTokenFileHeaderBytes),
             static_cast<std::size_t>(header[2])};
}

std::uint16_t TokenFile::max_token() const {
  // A plain loop, which the compiler vectorises; std::max_element does not.
  std::uint16_t largest = 0;
  for (const std::uint16_t token : tokens_) largest = std::max(largest, token);
  return largest;
}

void TokenFile::check_vocab(std::int64_t vocab_size) const {
  if (vocab_size >= kMaxTokenVocab || max_token() < vocab_size) return;
  const auto first = std::find_if(tokens_.begin(), tokens_.end(),
                                  [vocab_size](std::uint16_t token) { return token >= vocab_size; });
  throw Error(ErrorCode::kInvalidInput,
              "token file {}: token {} at position {} is not below the vocabulary size {} "
              "(largest token of the file: {}); set TokenDataset::Options::vocab_size to "
              "more than that, or prepare the data with the tokenizer that the model is meant for",
              path().string(), *first, first - tokens_.begin(), vocab_size, max_token());
}

void TokenFile::check_unchanged() const {
  if (!identity_) return;  // the system would not say at the start
  const std::string change = describe_change(*identity_, FileIdentity::of(path(), identity_));
  if (change.empty()) return;
  throw Error(ErrorCode::kRuntime,
              "token file {} {}, while the run reads it: restore it and start again, to resume; "
              "new data is for a new run",
              path().string(), change);
}

TokenFileWriter::TokenFileWriter(const std::filesystem::path& path) : file_(path) {
  const Header header{};  // filled in by commit()
  file_.writer().append(std::as_bytes(std::span(header)));
}

void TokenFileWriter::append(std::span<const std::uint16_t> tokens) {
  TRIREME_CHECK(num_tokens_ + static_cast<std::int64_t>(tokens.size()) <= kMaxTokensPerFile,
                "token file {} would exceed {} tokens, the most that its header can count; split the input "
                "over several runs and train on a folder of shards",
                file_.path().string(), kMaxTokensPerFile);
  file_.writer().append(std::as_bytes(tokens));
  num_tokens_ += static_cast<std::int64_t>(tokens.size());
}

void TokenFileWriter::move_tail(std::int64_t num_tokens, TokenFileWriter& target) {
  TRIREME_CHECK(num_tokens >= 0 && num_tokens <= num_tokens_, "cannot keep {} of the {} tokens of {}",
                num_tokens, num_tokens_, file_.path().string());
  file_.writer().flush();
  {
    const MappedFile written(file_.writer().path(), "temporary token file");
    const auto* tokens =
        reinterpret_cast<const std::uint16_t*>(written.bytes().data() + kTokenFileHeaderBytes);
    target.append({tokens + num_tokens, tokens + num_tokens_});
  }
  file_.writer().truncate(static_cast<std::uint64_t>(file_bytes(num_tokens)));
  num_tokens_ = num_tokens;
}

void TokenFileWriter::commit() {
  TRIREME_CHECK(num_tokens_ > 0, "token file {} would have no tokens", file_.path().string());
  Header header{};
  header[0] = kTokenFileMagic;
  header[1] = kTokenFileVersion;
  header[2] = static_cast<std::int32_t>(num_tokens_);
  file_.writer().overwrite(0, std::as_bytes(std::span(header)));
  file_.commit();
}

}  // namespace trireme
