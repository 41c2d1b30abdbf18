#include "runtime/data/sentencepiece_check.h"

#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/data/text_reader.h"

namespace trireme {
namespace {

/// Reads the fields of a message in protobuf's wire format.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  /// Calls visit(number, content) for each length-delimited field.
  void visit_bytes(const std::function<void(std::uint64_t, std::string_view)>& visit) {
    while (!rest_.empty()) {
      const std::uint64_t tag = varint();
      TRIREME_CHECK(tag >> 32 == 0, "a field of it has the tag {}", tag);
      switch (tag & 7) {
        case 0:
          varint();
          break;
        case 1:
          take(8);
          break;
        case 2:
          visit(tag >> 3, take(varint()));
          break;
        case 5:
          take(4);
          break;
        default:  // groups, which no model uses
          throw Error(ErrorCode::kInvalidInput, "a field of it has the wire type {}", tag & 7);
      }
    }
  }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    throw Error(ErrorCode::kInvalidInput, "a number of it has more than 64 bits");
  }
  std::string_view take(std::uint64_t count) {
    TRIREME_CHECK(count <= rest_.size(), "a field of it has {} bytes, and {} are left", count, rest_.size());
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::string_view rest_;
};

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

constexpr std::uint64_t kNormalizer = 3, kDenormalizer = 5;  // fields of ModelProto
constexpr std::uint64_t kCharsmap = 2;                       // field of NormalizerSpec

}  // namespace

void check_sentencepiece_model(std::string_view model, const std::filesystem::path& path) {
  const auto check_normalizer = [&path](std::uint64_t field, std::string_view content) {
    if (field != kCharsmap) return;
    try {
      check_charsmap(content);
    } catch (const Error& error) {
      throw Error(ErrorCode::kInvalidInput,
                  "sentencepiece model {} is damaged: its precompiled_charsmap is unsafe to use: {}",
                  path.string(), error.what());
    }
  };
  std::vector<std::string_view> normalizers;
  try {
    WireReader(model).visit_bytes([&](std::uint64_t field, std::string_view content) {
      if (field == kNormalizer || field == kDenormalizer) normalizers.push_back(content);
    });
    for (const std::string_view normalizer : normalizers)
      WireReader(normalizer).visit_bytes([](auto, auto) {});
  } catch (const Error& error) {
    throw Error(ErrorCode::kInvalidInput, "{} is not a sentencepiece model: {}", path.string(), error.what());
  }
  for (const std::string_view normalizer : normalizers) WireReader(normalizer).visit_bytes(check_normalizer);
}

}  // namespace trireme
