#include "tests/fuzz/json_changes.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "runtime/base/nesting.h"

namespace trireme::fuzz {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kOddValues[] = {
    "0",
    "-1",
    "1",
    "1.5",
    "-0.0",
    "1e308",
    "-1e308",
    "1e400",
    "1e-400",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "123456789012345678901234567890",
    "true",
    "false",
    "null",
    "\"\"",
    "\"\\u0000\"",
    "\"\\u001b[2J\\u202e\"",
    "\"a/../../b\"",
    "\"/etc/hostname\"",
    "\"\xff\"",
    "\"\\ud800\"",
    "{}",
    "[]",
    "[[]]",
    "{\"\":{}}",
};

/// All values of a tree, in the order of its text.
void collect(Json& value, std::vector<Json*>& values) {
  values.push_back(&value);
  if (!value.is_structured()) return;
  for (Json& inner : value) collect(inner, values);
}

std::string nested(std::string_view open, std::string_view close, std::size_t depth) {
  std::string text;
  for (std::size_t i = 0; i < depth; ++i) text += open;
  for (std::size_t i = 0; i < depth; ++i) text += close;
  return text;
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Many values, or deeply nested ones.
std::string large(Random& random) {
  const std::size_t count = std::size_t{1} << random.below(16);
  switch (random.below(4)) {
    case 0:
      return nested("[", "]", count);
    case 1:
      return nested("{\"a\":", "}", count).insert(5 * count, "1");
    case 2:
      return "[" + nested("0,", "", count) + "0]";
    default:
      std::string text = "{";
      for (std::size_t i = 0; i < count; ++i) text += "\"k" + std::to_string(i) + "\":0,";
      return text + "\"k\":0}";
  }
}

/// The replacement for `value`; in an object, a second entry of its name may follow.
std::string replacement(const Json& value, const std::vector<Json*>& all, Random& random,
                        std::span<const std::string_view> words) {
  const auto other = [&] { return dump(*random.one_of(all)); };
  if (!words.empty() && random.one_in(3)) return std::string(random.one_of(words));
  switch (random.below(6)) {
    case 0:
      return other();
    case 1:
      return "[" + dump(value) + "," + other() + "]";
    case 2:
      return random.one_in(8) ? large(random) : "{\"a\":" + dump(value) + "}";
    case 3:
      if (value.is_string()) {
        const std::string& text = value.get_ref<const std::string&>();
        const std::size_t kept = random.below(text.size() + 1);
        return dump(Json(text.substr(0, kept) + std::string(random.below(3), '/') + text.substr(kept)));
      }
      if (value.is_number_integer()) return dump(Json(value.get<std::int64_t>() ^ 1LL << random.below(63)));
      [[fallthrough]];
    default:
      return std::string(random.one_of(kOddValues));
  }
}

/// Leaves out, doubles or exchanges the parts of an array or object.
void rearrange(Json& value, Random& random) {
  const std::size_t at = random.below(value.size());
  if (value.is_array()) {
    if (random.one_in(2)) {
      value.erase(at);
    } else {
      const Json again = value[at];
      value.insert(value.begin() + static_cast<std::ptrdiff_t>(random.below(value.size())), again);
    }
    return;
  }
  auto entry = value.begin();
  std::advance(entry, at);
  if (random.one_in(2)) {
    value.erase(entry);
  } else {
    auto other = value.begin();
    std::advance(other, random.below(value.size()));
    std::swap(entry.value(), other.value());
  }
}

}  // namespace

void change_json(std::string& text, Random& random, std::span<const std::string_view> words) {
  constexpr std::size_t kMostItems = 2048;  // objects in the order of their text take quadratic time
  if (json_nesting(text) > kMaxNesting || json_items(text) > kMostItems) return;
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return;
  std::vector<Json*> values;
  collect(json, values);
  Json& value = *random.one_of(values);
  if (value.is_structured() && !value.empty() && random.one_in(2)) {
    rearrange(value, random);
    text = dump(json);
    return;
  }
  // A mark, because the replacement may be text that a tree cannot hold.
  std::string by = replacement(value, values, random, words);
  if (random.one_in(16)) by += ",\"step\":" + by;  // wrong in an array
  const std::string mark = "fuzz\x01mark";
  value = mark;
  text = dump(json);
  const std::string written = dump(Json(mark));
  text.replace(text.find(written), written.size(), by);
}

void change_json_line(std::string& text, Random& random, std::span<const std::string_view> words) {
  const std::size_t from = random.below(text.size() + 1);
  const std::size_t before = from == 0 ? std::string::npos : text.rfind('\n', from - 1);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  const std::size_t end = std::min(text.find('\n', begin), text.size());
  std::string line = text.substr(begin, end - begin);
  change_json(line, random, words);
  text.replace(begin, end - begin, line);
}

}  // namespace trireme::fuzz
