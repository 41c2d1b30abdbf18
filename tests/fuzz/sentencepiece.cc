// Sentencepiece models: the fields of protobuf's wire format, and the normalizer rules inside them.
#include <sentencepiece_trainer.h>

#include <array>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "runtime/data/sentencepiece_tokenizer.h"
#include "runtime/data/tokenizer.h"
#include "tests/fuzz/reader.h"
#include "tests/runtime/data/sample_text.h"
#include "tests/support/temporary_folder.h"

namespace trireme::fuzz {
namespace {

std::string text_for_model(Random& random) {
  constexpr std::string_view kPieces[] = {"the ", "rower", "a",    " ", "\n",  "\t",           "\xe2\x96\x81",
                                          "b",    "ca",    "\xff", "1", "<s>", "\xef\xac\x81", "\xc3\xa9"};
  std::string text;
  const std::size_t bytes = random.one_in(16) ? 100'000 : random.below(300);
  while (text.size() < bytes) text += random.one_of(kPieces);
  return text;
}

int fuzz_sentencepiece(const std::uint8_t* data, std::size_t size) {
  const auto path = input_file("fuzzed.model", as_text(data, size));
  Random random(as_text(data, size));
  const std::string text = text_for_model(random);
  in_time([&] {
    taken([&] {
      const auto tokenizer = load_sentencepiece(path);
      require(tokenizer->model_text() == as_text(data, size), "its file would be saved as another one");
      std::vector<std::int32_t> ids;
      if (!taken([&] { ids = tokenizer->encode(text); })) return;
      for (const std::int32_t id : ids)
        require(id >= 0 && id < tokenizer->vocab_size(), "an id is out of range");
      taken([&] { tokenizer->decode(ids); });
      taken([&] { tokenizer->document_separator(); });
    });
  });
  return 0;
}

// Protobuf's wire format.
struct WireField {
  std::uint64_t tag = 0;
  std::string content;  // numbers: their bytes; bytes: without their size
};

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7F) | 0x80);
  return bytes + static_cast<char>(value);
}

std::optional<std::uint64_t> take_varint(std::string_view& rest) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest[0]);
    rest.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

/// Parses up to the first damaged field.
std::vector<WireField> fields_of(std::string_view rest) {
  std::vector<WireField> fields;
  while (const auto tag = take_varint(rest)) {
    std::uint64_t size = 0;
    switch (*tag & 7) {
      case 0: {
        const auto value = take_varint(rest);
        if (!value) return fields;
        fields.push_back({*tag, varint(*value)});
        continue;
      }
      case 1:
        size = 8;
        break;
      case 2:
        size = take_varint(rest).value_or(~std::uint64_t{0});
        break;
      case 5:
        size = 4;
        break;
      default:
        return fields;
    }
    if (size > rest.size()) return fields;
    fields.push_back({*tag, std::string(rest.substr(0, size))});
    rest.remove_prefix(size);
  }
  return fields;
}

std::string bytes_of(const std::vector<WireField>& fields) {
  std::string bytes;
  for (const WireField& field : fields) {
    bytes += varint(field.tag);
    if ((field.tag & 7) == 2) bytes += varint(field.content.size());
    bytes += field.content;
  }
  return bytes;
}

void change_some_bytes(std::string& bytes, Random& random) {
  for (std::size_t left = 1 + random.below(4); left > 0 && !bytes.empty(); --left)
    bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
  if (random.one_in(4)) bytes.resize(random.below(2 * bytes.size() + 2), '\0');
}

/// Changes a unit of the trie, its size, or a byte of the strings.
void change_charsmap(std::string& blob, Random& random) {
  constexpr std::size_t kUnit = sizeof(std::uint32_t);
  if (blob.size() < 2 * kUnit || random.one_in(4)) return change_some_bytes(blob, random);
  const std::size_t at =
      kUnit * random.below(random.one_in(2) ? blob.size() / kUnit : 8) % (blob.size() - kUnit);
  std::uint32_t unit = 0;
  std::memcpy(&unit, blob.data() + at, kUnit);
  if (random.one_in(2)) {
    unit ^= 1U << random.below(32);
  } else {
    unit = static_cast<std::uint32_t>(random.below(1ULL << 32));
  }
  std::memcpy(blob.data() + at, &unit, kUnit);
}

constexpr std::uint64_t kWirePieces = 1, kWireNormalizer = 3, kWireDenormalizer = 5, kWireCharsmap = 2;

void change_fields(std::string& bytes, Random& random, int depth) {
  std::vector<WireField> fields = fields_of(bytes);
  if (fields.empty()) return change_some_bytes(bytes, random);
  std::size_t at = random.below(fields.size());
  // Most fields are pieces.
  for (int tries = 0; tries < 50 && random.one_in(2) && fields[at].tag >> 3 == kWirePieces; ++tries)
    at = random.below(fields.size());
  WireField& field = fields[at];
  switch (random.below(8)) {
    case 0:
      fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1: {
      const WireField again = field;
      const std::size_t count = random.one_in(16) ? std::size_t{1} << random.below(14) : 1;
      fields.insert(fields.begin() + static_cast<std::ptrdiff_t>(random.below(fields.size())), count, again);
      break;
    }
    case 2:
      field.tag = random.one_in(2) ? field.tag ^ 1U << random.below(8) : random.below(1024);
      break;
    case 3:
      field.content = fields[random.below(fields.size())].content;
      break;
    default:
      if ((field.tag & 7) == 0) {
        field.content = varint(random.one_in(2) ? random.below(8) : ~std::uint64_t{0} >> random.below(64));
      } else if ((field.tag & 7) == 2 && depth == 1 && field.tag >> 3 == kWireCharsmap &&
                 field.content.size() > 16) {
        change_charsmap(field.content, random);
      } else if ((field.tag & 7) == 2 && depth == 0) {
        change_fields(field.content, random, depth + 1);
      } else {
        change_some_bytes(field.content, random);
      }
  }
  bytes = bytes_of(fields);
}

void change_model(std::string& bytes, Random& random) {
  change_fields(bytes, random, 0);
}

/// Rules that replace each "a" by "b", in a trie of 256 units of Darts-clone ([Note: precompiled_charsmap]).
std::string small_charsmap() {
  std::array<std::uint32_t, 256> units{};
  units.fill(1);
  units[0] = 2 << 10;
  units[2 ^ 'a'] = ((2U ^ 'a' ^ 128U) << 10) | 1 << 8 | 'a';
  units[128] = 1U << 31;
  const std::uint32_t trie_bytes = sizeof units;
  std::string blob(reinterpret_cast<const char*>(&trie_bytes), sizeof trie_bytes);
  blob.append(reinterpret_cast<const char*>(units.data()), sizeof units);
  return blob + std::string("b\0c\0", 4);
}

std::vector<std::string> models() {
  const auto text = scratch_folder() / "seed.txt", prefix = scratch_folder() / "seed";
  testing::write_file(text, testing::sample_text(200));
  std::vector<std::string> files;
  for (const char* type : {"bpe", "unigram", "word", "char"}) {
    const std::unordered_map<std::string, std::string> arguments = {
        {"input", text.string()},
        {"model_prefix", prefix.string()},
        {"model_type", type},
        {"vocab_size", std::string(type) == "bpe" ? "300" : "60"},
        {"hard_vocab_limit", "false"},
        {"normalization_rule_name", "identity"},
        {"user_defined_symbols", "ro,<x>"},
        {"byte_fallback", std::string(type) == "bpe" ? "true" : "false"},
        {"num_threads", "1"},
        {"minloglevel", "2"}};
    require(sentencepiece::SentencePieceTrainer::Train(arguments).ok(), "no model is trained");
    files.push_back(testing::read_file(prefix.string() + ".model"));
    for (const std::uint64_t normalizer : {kWireNormalizer, kWireDenormalizer}) {
      const std::string rules = bytes_of({{kWireCharsmap << 3 | 2, small_charsmap()}});
      files.push_back(files[files.size() - 1 - (normalizer == kWireDenormalizer ? 1 : 0)] +
                      bytes_of({{normalizer << 3 | 2, rules}}));
    }
  }
  return files;
}

}  // namespace

const Reader kSentencePiece{"sentencepiece", fuzz_sentencepiece, models, change_model, 2};

}  // namespace trireme::fuzz
