#include "runtime/data/sentencepiece_check.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/data/protobuf_fields.h"
#include "runtime/data/text_reader.h"

namespace trireme {
namespace {

std::uint32_t word_at(std::string_view bytes, std::size_t index) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + index * sizeof word, sizeof word);
  return word;
}

/// Accessors of a Darts-clone unit.
std::uint32_t offset_of(std::uint32_t unit) {
  return (unit >> 10) << ((unit & (1U << 9)) >> 6);
}
bool has_leaf(std::uint32_t unit) {
  return (unit >> 8 & 1) == 1;
}
bool is_leaf(std::uint32_t unit) {
  return unit >> 31 == 1;
}
std::uint32_t value_of(std::uint32_t unit) {
  return unit & 0x7FFFFFFFU;
}

// For a unit at `id` with offset o, children are at id ^ o ^ byte, and its value is at id ^ o. A leaf's label
// is not a byte, so the library never follows a leaf, except the root, whose label it does not compare.
void check_trie(std::string_view trie, std::string_view strings) {
  const std::size_t num_units = trie.size() / sizeof(std::uint32_t);
  for (std::size_t id = 0; id < num_units; ++id) {
    const std::uint32_t unit = word_at(trie, id);
    if (id > 0 && is_leaf(unit)) continue;
    const std::size_t children = id ^ offset_of(unit);
    TRIREME_CHECK((children | 0xFF) < num_units, "unit {} of its trie leads to {}, and there are {} units",
                  id, children | 0xFF, num_units);
    if (!has_leaf(unit)) continue;
    const std::size_t value = value_of(word_at(trie, children));
    TRIREME_CHECK(value < strings.size() && (static_cast<unsigned char>(strings[value]) & 0xC0) != 0x80,
                  "unit {} of its trie has a string at {}, where none of the {} bytes of strings begins", id,
                  value, strings.size());
  }
}

void check_charsmap(std::string_view blob) {
  if (blob.empty()) return;
  TRIREME_CHECK(blob.size() > sizeof(std::uint32_t), "it has {} bytes", blob.size());
  const std::size_t trie_bytes = word_at(blob, 0);
  blob.remove_prefix(sizeof(std::uint32_t));
  TRIREME_CHECK(trie_bytes > 0 && trie_bytes % sizeof(std::uint32_t) == 0 && trie_bytes < blob.size(),
                "its trie has {} bytes, where {} follow", trie_bytes, blob.size());
  const std::string_view strings = blob.substr(trie_bytes);
  TRIREME_CHECK(strings.back() == '\0', "its last string does not end");
  TRIREME_CHECK(!inspect_utf8(strings).first_invalid, "its strings are no UTF-8");
  check_trie(blob.substr(0, trie_bytes), strings);
}

void check_charsmap(std::string_view blob, const std::filesystem::path& path) {
  try {
    check_charsmap(blob);
  } catch (const Error& error) {
    throw Error(ErrorCode::kInvalidInput,
                "sentencepiece model {} is damaged: its precompiled_charsmap is unsafe to use: {}",
                path.string(), error.what());
  }
}

constexpr std::uint64_t kNormalizer = 3, kDenormalizer = 5;  // fields of ModelProto
constexpr std::uint64_t kCharsmap = 2;                       // field of NormalizerSpec

}  // namespace

void check_sentencepiece_model(std::string_view model, const std::filesystem::path& path) {
  std::vector<std::string_view> normalizers;
  try {
    visit_protobuf(model, [&](const ProtobufField& field) {
      if (field.number == kNormalizer || field.number == kDenormalizer) normalizers.push_back(field.bytes);
    });
    for (const std::string_view normalizer : normalizers) visit_protobuf(normalizer, [](const auto&) {});
  } catch (const Error& error) {
    throw Error(ErrorCode::kInvalidInput, "{} is not a sentencepiece model: {}", path.string(), error.what());
  }
  for (const std::string_view normalizer : normalizers) {
    visit_protobuf(normalizer, [&](const ProtobufField& field) {
      if (field.number == kCharsmap) check_charsmap(field.bytes, path);
    });
  }
}

}  // namespace trireme
