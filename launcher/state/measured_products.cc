#include "launcher/state/measured_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <string_view>

#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/hash.h"
#include "runtime/checkpoint/json_file.h"

namespace trireme {
namespace {

using SortedJson = nlohmann::json;

constexpr int kHexDigits = 16;  // per 64-bit word

std::string to_hex(const ProductAlgorithm& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm) text += fmt::format("{:016x}", word);
  return text;
}

ProductAlgorithm algorithm_of(const std::string& text) {
  ProductAlgorithm algorithm{};
  TRIREME_CHECK(text.size() == algorithm.size() * kHexDigits, "an algorithm has {} digits instead of {}",
                text.size(), algorithm.size() * kHexDigits);
  const char* at = text.data();
  for (std::uint64_t& word : algorithm) {
    const auto [end, error] = std::from_chars(at, at + kHexDigits, word, 16);
    TRIREME_CHECK(error == std::errc() && end == at + kHexDigits, "\"{}\" is not an algorithm", text);
    at = end;
  }
  return algorithm;
}

DType dtype_of(const std::string& word) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kE4m3, DType::kE5m2}) {
    if (name(dtype) == word) return dtype;
  }
  throw Error(ErrorCode::kInvalidInput, "\"{}\" is not a dtype of a product", word);
}

Epilogue epilogue_of(const std::string& word) {
  const auto found = std::ranges::find(kEpilogueNames, word);
  TRIREME_CHECK(found != std::end(kEpilogueNames), "\"{}\" is not an epilogue", word);
  return static_cast<Epilogue>(found - std::begin(kEpilogueNames));
}

Transpose transpose_of(bool transposed) {
  return transposed ? Transpose::kYes : Transpose::kNo;
}

SortedJson to_json(const Product& product, const ProductChoice& choice) {
  return {{"m", product.m},
          {"n", product.n},
          {"k", product.k},
          {"transpose_a", product.transpose_a == Transpose::kYes},
          {"transpose_b", product.transpose_b == Transpose::kYes},
          {"in", name(product.in)},
          {"out", name(product.out)},
          {"tf32", product.math == MathMode::kTf32},
          {"epilogue", kEpilogueNames[static_cast<std::size_t>(product.epilogue)]},
          {"added", product.add_c},
          {"a_pitch", product.a_pitch},
          {"b_pitch", product.b_pitch},
          {"d_pitch", product.d_pitch},
          {"alignment", product.alignment},
          {"algorithm", to_hex(choice.algorithm)},
          {"description", choice.description},
          {"candidate", choice.candidate},
          {"candidates", choice.num_candidates},
          {"us", choice.us},
          {"first_us", choice.first_us}};
}

Product product_of(const SortedJson& json) {
  return {.m = read_integer<std::int64_t>(json, "m"),
          .n = read_integer<std::int64_t>(json, "n"),
          .k = read_integer<std::int64_t>(json, "k"),
          .transpose_a = transpose_of(json.at("transpose_a").get<bool>()),
          .transpose_b = transpose_of(json.at("transpose_b").get<bool>()),
          .in = dtype_of(json.at("in").get<std::string>()),
          .out = dtype_of(json.at("out").get<std::string>()),
          .math = json.at("tf32").get<bool>() ? MathMode::kTf32 : MathMode::kFp32,
          .epilogue = epilogue_of(json.at("epilogue").get<std::string>()),
          .add_c = json.at("added").get<bool>(),
          .a_pitch = read_integer<std::int64_t>(json, "a_pitch"),
          .b_pitch = read_integer<std::int64_t>(json, "b_pitch"),
          // Older tables have no results with a pitch.
          .d_pitch = json.contains("d_pitch") ? read_integer<std::int64_t>(json, "d_pitch") : 0,
          .alignment = read_integer<int>(json, "alignment")};
}

ProductChoice choice_of(const SortedJson& json) {
  return {.algorithm = algorithm_of(json.at("algorithm").get<std::string>()),
          .description = json.at("description").get<std::string>(),
          .candidate = read_integer<int>(json, "candidate"),
          .num_candidates = read_integer<int>(json, "candidates"),
          .us = json.at("us").get<double>(),
          .first_us = json.at("first_us").get<double>()};
}

std::string checksum_of(const SortedJson& content) {
  const std::string text = content.dump();
  ByteHash hash;
  hash.update(std::as_bytes(std::span(text)));
  return fmt::format("{:016x}", hash.value());
}

double gain_of(const ProductChoice& choice) {
  return choice.first_us > 0 ? 1 - choice.us / choice.first_us : 0;
}

}  // namespace

ProductFacts product_facts(const ProductFacts& all) {
  ProductFacts facts;
  for (const char* const name : {"GPU", "cuBLASLt"}) {
    const auto found = all.find(name);
    if (found != all.end()) facts.insert(*found);
  }
  return facts;
}

SortedJson to_json(const MeasuredProducts& products) {
  SortedJson content{{"facts", products.facts}, {"products", SortedJson::array()}};
  for (const auto& [product, choice] : products.choices) {
    content["products"].push_back(to_json(product, choice));
  }
  content["checksum"] = checksum_of(content);
  return content;
}

MeasuredProducts products_of(const SortedJson& json) {
  try {
    SortedJson content = json;
    const std::string checksum = content.at("checksum").get<std::string>();
    content.erase("checksum");
    TRIREME_CHECK(checksum_of(content) == checksum, "the checksum of its content is {}, but it states {}",
                  checksum_of(content), checksum);
    MeasuredProducts products{.facts = content.at("facts").get<ProductFacts>(), .choices = {}};
    for (const SortedJson& one : content.at("products"))
      products.choices.insert_or_assign(product_of(one), choice_of(one));
    return products;
  } catch (const SortedJson::exception& error) {
    throw Error(ErrorCode::kInvalidInput, error.what());
  }
}

void write_products(const std::filesystem::path& file, const MeasuredProducts& products) {
  write_text_file(file, to_json(products).dump(1) + "\n");
}

MeasuredProducts read_products(const std::filesystem::path& file) {
  try {
    return products_of(read_json_file(file, "table of measured products"));
  } catch (const Error& error) {
    throw Error(ErrorCode::kInvalidInput,
                "{} is damaged, or is not a table of measured products: {}. Remove it to measure them again",
                file.string(), error.what());
  }
}

std::string describe(const ProductTable& choices) {
  const auto num_faster =
      std::ranges::count_if(choices, [](const auto& entry) { return entry.second.candidate > 0; });
  std::string text = fmt::format("{} products measured", choices.size());
  if (num_faster == 0) return text + ", none of them faster than the heuristics' choice";
  double most = 0;
  for (const auto& [product, choice] : choices) most = std::max(most, gain_of(choice));
  return text + fmt::format(", {} of them faster than the heuristics' choice, by up to {:.1f} %", num_faster,
                            100 * most);
}

std::string describe(const Product& product, const ProductChoice& choice) {
  const std::string text =
      fmt::format("{}: {:.1f} us with proposal {} of {} ({})", to_string(product), choice.us,
                  choice.candidate + 1, choice.num_candidates, choice.description);
  if (choice.candidate == 0) return text;
  return text +
         fmt::format(", {:.1f} us with the first: {:.1f} % less", choice.first_us, 100 * gain_of(choice));
}

}  // namespace trireme
