#include "launcher/data/data_record.h"

#include <fmt/core.h>

#include <span>

#include "runtime/base/error.h"
#include "runtime/base/folder_file.h"
#include "runtime/base/mapped_file.h"
#include "runtime/base/regular_file.h"
#include "runtime/checkpoint/hash.h"
#include "runtime/checkpoint/json_file.h"
#include "runtime/data/bpe_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using SortedJson = nlohmann::json;

std::uint64_t hash_of(std::span<const std::byte> bytes) {
  ByteHash hash;
  hash.update(bytes);
  return hash.value();
}

std::string hash_text(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

SortedJson to_json(const std::optional<DataFingerprint>& fingerprint) {
  if (!fingerprint) return nullptr;
  return {{"contents", fingerprint->contents},
          {"hash", hash_text(fingerprint->hash)},
          {"names_hash", hash_text(fingerprint->names_hash)}};
}

std::uint64_t hash_in(const SortedJson& json, const char* key) {
  return std::stoull(json.at(key).get<std::string>(), nullptr, 16);
}

std::optional<DataFingerprint> fingerprint_in(const SortedJson& json) {
  if (json.is_null()) return std::nullopt;
  return DataFingerprint{.contents = json.at("contents").get<std::string>(),
                         .hash = hash_in(json, "hash"),
                         .names_hash = hash_in(json, "names_hash")};
}

std::int64_t count_in(const SortedJson& json, const char* key) {
  const auto count = read_integer<std::int64_t>(json, key);
  constexpr std::int64_t kMax = std::int64_t{1} << 56;  // sums of positions must not overflow
  TRIREME_CHECK(count >= 0 && count <= kMax, "{} = {} is not in 0 to {}", key, count, kMax);
  return count;
}

/// Older builds saved only the tokenizer's file beside the checkpoint.
TokenizerRecord older_tokenizer(const std::string& kind, const fs::path& folder) {
  const std::string_view file = tokenizer_file(kind);
  if (file.empty() || !fs::exists(folder / file)) return {.kind = kind};
  return read_tokenizer_record(kind, folder / file);
}

}  // namespace

TokenizerRecord read_tokenizer_record(const std::string& kind, const fs::path& file,
                                      std::int64_t vocab_size) {
  TokenizerRecord record{.kind = kind, .vocab_size = vocab_size};
  if (!file.empty()) record.hash = hash_of(MappedFile(file, "tokenizer").bytes());
  return record;
}

std::string read_checked_tokenizer(const fs::path& file, const TokenizerRecord& record) {
  const fs::path path =
      file_of_folder({.folder = file.parent_path(), .name = file.filename().string(), .what = "tokenizer"});
  std::string text = read_text_file({.path = path, .what = "tokenizer", .max_bytes = kMaxTokenizerBytes});
  const std::uint64_t hash = hash_of(std::as_bytes(std::span(text)));
  TRIREME_CHECK(record.hash == 0 || record.hash == hash,
                "the tokenizer {} was changed during the run: its hash is {}, but was {} at the start; "
                "restore the file and start again to resume",
                file.string(), hash_text(hash), hash_text(record.hash));
  return text;
}

TokenizerRecord record_of(const Tokenizer& tokenizer) {
  const std::string text = tokenizer.model_text();
  return {.kind = std::string(tokenizer.kind()),
          .hash = text.empty() ? 0 : hash_of(std::as_bytes(std::span(text))),
          .vocab_size = tokenizer.vocab_size()};
}

bool is_same(const TokenizerRecord& a, const TokenizerRecord& b) {
  if (a.kind.empty() || b.kind.empty()) return true;
  if (a.kind != b.kind) return false;
  if (a.hash != 0 && b.hash != 0) return a.hash == b.hash;
  return a.vocab_size == 0 || b.vocab_size == 0 || a.vocab_size == b.vocab_size;
}

std::string to_string(const TokenizerRecord& tokenizer) {
  std::string text = tokenizer.kind;
  if (tokenizer.vocab_size > 0) text += fmt::format(" of {} tokens", tokenizer.vocab_size);
  if (tokenizer.hash != 0) text += ", hash " + hash_text(tokenizer.hash);
  return text;
}

SortedJson to_json(const DataRecord& record) {
  return {
      {"samples", record.samples},
      {"pass_samples", record.pass_samples},
      {"train", to_json(record.train)},
      {"eval", to_json(record.eval)},
      {"tokenizer", {{"hash", hash_text(record.tokenizer.hash)}, {"vocab", record.tokenizer.vocab_size}}}};
}

DataRecord read_data_record(const SortedJson& content, const JobConfig& config, const fs::path& folder) {
  DataRecord record{.class_names = content.value("class_names", std::vector<std::string>()),
                    .images = image_record(config.data),
                    .rows = row_record(config)};
  const std::string kind = content.at("tokenizer").get<std::string>();
  TRIREME_CHECK(kind.empty() || is_known_tokenizer(kind), "its tokenizer \"{:.100}\" is unknown", kind);
  const auto found = content.find("data");
  if (found == content.end()) {
    record.tokenizer = older_tokenizer(kind, folder);
    return record;
  }
  record.samples = count_in(*found, "samples");
  record.pass_samples = count_in(*found, "pass_samples");
  record.train = fingerprint_in(found->at("train"));
  record.eval = fingerprint_in(found->at("eval"));
  const SortedJson& tokenizer = found->at("tokenizer");
  record.tokenizer = {
      .kind = kind, .hash = hash_in(tokenizer, "hash"), .vocab_size = count_in(tokenizer, "vocab")};
  return record;
}

std::optional<RowRecord> row_record(const JobConfig& config) {
  if (!has_token_files(config.data.kind)) return std::nullopt;
  return RowRecord{
      .seq_len = config.model.seq_len, .pack = config.data.pack, .too_long = config.data.too_long};
}

std::optional<ImageRecord> image_record(const DataSection& data) {
  if (!keeps_pictures(data.kind)) return std::nullopt;
  return ImageRecord{
      .size = data.image_size, .center = data.center, .mean = data.mean, .stddev = data.stddev};
}

}  // namespace trireme
