#include "runtime/data/json_records.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/base/error.h"
#include "runtime/checkpoint/json_file.h"

namespace trireme {
namespace {

constexpr std::size_t kWindowBytes = std::size_t{1} << 20;
constexpr std::string_view kBlank = " \t\r\n";
constexpr int kEnoughValues = 3;

std::string_view without_blank(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kBlank), text.size()));
}

/// The size of the object or list that `text` begins with; npos where it does not end.
std::size_t value_bytes(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') {
      if (--depth == 0) return i + 1;
    }
  }
  return std::string_view::npos;
}

/// Whether a value that the window does not hold whole begins as records do: {"key": or [{, [[, [".
bool begins_like_records(std::string_view text) {
  const char opening = text.front();
  const std::string_view inner = without_blank(text.substr(1));
  if (opening == '[') return inner.starts_with('{') || inner.starts_with('[') || inner.starts_with('"');
  if (!inner.starts_with('"')) return false;
  const std::size_t end = inner.find('"', 1);
  return end != std::string_view::npos && without_blank(inner.substr(end + 1)).starts_with(':');
}

void note_fields(const nlohmann::json& value, JsonRecords& found) {
  const nlohmann::json* object = &value;
  if (value.is_array() && !value.empty()) object = &value.front();
  if (!object->is_object() || !found.fields.empty()) return;
  for (const auto& [key, _] : object->items()) {
    if (found.fields.size() < 8) found.fields.push_back(key);
  }
}

/// Nothing where it is no JSON, or says nothing: "[1]" is a footnote, "{}" code.
std::optional<nlohmann::json> read_value(std::string_view text) {
  try {
    nlohmann::json value = parse_json(text);
    if (value.empty() || (value.is_array() && value.front().is_number())) return std::nullopt;
    return value;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

JsonRecords find_json_records(std::string_view text) {
  const bool is_cut = text.size() > kWindowBytes;
  std::string_view rest = without_blank(text.substr(0, kWindowBytes));
  JsonRecords found;
  int num_values = 0;
  for (; num_values < kEnoughValues && !rest.empty(); ++num_values) {
    if (rest.front() != '{' && rest.front() != '[') return {};
    const std::size_t size = value_bytes(rest);
    if (num_values == 0) found.is_list = rest.front() == '[';
    if (size == std::string_view::npos) {
      // Beyond the window, or a file that was cut off.
      if (!begins_like_records(rest) || (!is_cut && num_values == 0)) return {};
      break;
    }
    const std::optional<nlohmann::json> value = read_value(rest.substr(0, size));
    if (!value) return {};
    note_fields(*value, found);
    rest = without_blank(rest.substr(size));
    if (num_values == 0 && !rest.empty()) found.is_list = false;
  }
  if (num_values == 0 && rest.empty()) return {};
  const bool is_one_object = num_values <= 1 && !found.is_list;
  const bool is_one = is_one_object && (num_values == 0 || rest.empty());
  found.kind = is_one ? JsonRecords::Kind::kObject : JsonRecords::Kind::kRecords;
  return found;
}

std::string describe_json(const JsonRecords& found, const std::filesystem::path& path, bool labelled) {
  const auto has = [&](std::string_view field) {
    return std::ranges::find(found.fields, field) != found.fields.end();
  };
  std::string text = "text";
  for (const char* field : {"content", "sentence", "text"}) {
    if (has(field)) text = field;
  }
  std::string filter = "." + text;
  for (const char* field : {"conversations", "messages"}) {
    if (has(field)) filter = fmt::format(".{}[] | .{}", field, field[0] == 'm' ? "content" : "value");
  }
  if (labelled) filter = fmt::format("[.label, .{}] | @tsv", text);
  if (found.is_list) filter = ".[] | " + filter;
  return fmt::format(
      "{} holds JSON {}{}, and its braces, quotes and keys would be taken for text. Write its text to a file "
      "first, "
      "e.g. `jq -r '{}' {} > NEW`, or insist with --as-text",
      path.string(),
      found.kind == JsonRecords::Kind::kObject ? "(one object)"
      : found.is_list                          ? "(a list)"
                                               : "lines",
      found.fields.empty() ? "" : fmt::format(" with the keys {}", fmt::join(found.fields, ", ")), filter,
      path.string());
}

}  // namespace trireme
