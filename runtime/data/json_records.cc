#include "runtime/data/json_records.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/base/nesting.h"

namespace trireme {
namespace {

constexpr std::size_t kWindowBytes = std::size_t{1} << 20;
constexpr std::string_view kBlank = " \t\r\n";
constexpr int kEnoughValues = 3, kEnoughLines = 32;

std::string_view without_blank(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kBlank), text.size()));
}

/// The size of the object or list at the start of `text`; npos if it does not end.
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

/// True if a value that is cut off by the window begins as records do: {"key": or [{, [[, [".
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

/// The text with null for NaN and Infinity, which Python's json writes and JSON lacks.
std::string without_odd_numbers(std::string_view text) {
  constexpr std::string_view kOdd[] = {"-Infinity", "Infinity", "NaN"};
  std::string copy;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    const auto odd =
        std::ranges::find_if(kOdd, [&](std::string_view word) { return rest.starts_with(word); });
    if (!in_string && odd != std::end(kOdd)) {
      copy += "null";
      i += odd->size();
      continue;
    }
    if (in_string && rest.front() == '\\') copy += text[i++];
    if (rest.front() == '"') in_string = !in_string;
    if (i < text.size()) copy += text[i++];
  }
  return copy;
}

/// Counts keys and values up to the end of a text, or up to its first byte that is not JSON.
struct PrefixReader : nlohmann::json_sax<nlohmann::json> {
  std::int64_t num_keys = 0, num_values = 0;
  std::size_t error_at = 0;
  std::vector<std::string> fields;  // keys of the first object, at most 8

  bool value() { return ++num_values > 0; }
  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(std::size_t) override { return ++depth_ > 0; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return value(); }
  bool end_object() override {
    if (--depth_ == 0) is_first_ = false;
    return value();
  }
  bool key(string_t& name) override {
    ++num_keys;
    if (is_first_ && depth_ == 1 && fields.size() < 8) fields.push_back(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    error_at = position;
    return false;
  }

 private:
  int depth_ = 0;  // of objects
  bool is_first_ = true;
};

/// Finds one object or list without an end, if everything before it is JSON with more than a bracket and a
/// word.
JsonRecords find_cut_off(std::string_view text) {
  if (text.empty() || (text.front() != '{' && text.front() != '[')) return {};
  const auto read = [](std::string_view from) {
    PrefixReader reader;
    nlohmann::json::sax_parse(from, &reader);
    if (reader.error_at <= from.size()) reader.num_keys = reader.num_values = 0;  // an error before the end
    return reader;
  };
  PrefixReader reader = read(text);
  if (reader.num_keys + reader.num_values == 0) reader = read(without_odd_numbers(text));
  const bool is_object = text.front() == '{';
  const bool has_enough = reader.num_keys > 0 ? begins_like_records(text) : reader.num_values > 1;
  if (!has_enough) return {};
  std::ranges::sort(reader.fields);
  return {.kind = is_object ? JsonRecords::Kind::kObject : JsonRecords::Kind::kRecords,
          .is_list = !is_object,
          .is_cut_off = true,
          .fields = std::move(reader.fields)};
}

/// Empty if the text is not JSON, or has no content: "[1]" is a footnote, "{}" code. Repeated names are
/// allowed here.
std::optional<nlohmann::json> read_value(std::string_view text) {
  if (json_nesting(text) > kMaxNesting) return std::nullopt;
  const auto parse = [](const auto& from) {
    return nlohmann::json::parse(from, nullptr, /*allow_exceptions=*/false);
  };
  nlohmann::json value = parse(text);
  if (value.is_discarded()) value = parse(without_odd_numbers(text));
  const bool is_footnote = value.is_array() && value.size() == 1 && value.front().is_number();
  if (!value.is_structured() || value.empty() || is_footnote) return std::nullopt;
  return value;
}

JsonRecords find_whole_values(std::string_view rest, bool is_cut) {
  JsonRecords found;
  int num_values = 0;
  for (; num_values < kEnoughValues && !rest.empty(); ++num_values) {
    if (rest.front() != '{' && rest.front() != '[') return {};
    const std::size_t size = value_bytes(rest);
    if (num_values == 0) found.is_list = rest.front() == '[';
    if (size == std::string_view::npos) {
      // Ends beyond the window, or the file was truncated.
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

/// Lines that are mostly records, some of them broken.
JsonRecords find_lines(std::string_view rest) {
  JsonRecords found{.is_broken = true};
  int num_lines = 0, num_records = 0;
  for (; num_lines < kEnoughLines && !rest.empty(); ++num_lines) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest = without_blank(rest.substr(line.size()));
    if (line.front() != '{' && line.front() != '[') continue;
    const auto value = read_value(line);
    if (value) note_fields(*value, found);
    num_records += value || (line.front() == '{' && begins_like_records(line)) ? 1 : 0;
  }
  const bool are_all = num_records >= 2 && num_records == num_lines;
  const bool are_most = num_records >= kEnoughValues && 2 * num_records > num_lines;
  if (!are_all && !are_most) return {};
  found.kind = JsonRecords::Kind::kRecords;
  return found;
}

}  // namespace

JsonRecords find_json_records(std::string_view text) {
  const std::string_view window = without_blank(text.substr(0, kWindowBytes));
  const bool is_cut = text.size() > kWindowBytes;
  JsonRecords found = find_whole_values(window, is_cut);
  if (found.kind == JsonRecords::Kind::kNone && !is_cut) found = find_cut_off(window);
  return found.kind == JsonRecords::Kind::kNone ? find_lines(window) : found;
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
  if (found.is_list) filter = found.fields.empty() ? ".[]" : ".[] | " + filter;
  // jq stops at a line that it cannot parse, unless it reads raw text.
  return fmt::format(
      "{} holds JSON {}{}{}, and its braces, quotes and keys would be taken for text. {}rite its text to a "
      "file first, e.g. `jq {} '{}{}' {} > NEW`, or insist with --as-text",
      path.string(),
      found.kind == JsonRecords::Kind::kObject ? "(one object)"
      : found.is_list                          ? "(a list)"
                                               : "lines",
      found.fields.empty() ? "" : fmt::format(" with the keys {}", fmt::join(found.fields, ", ")),
      found.is_broken    ? ", some of them broken"
      : found.is_cut_off ? ", cut off at its end"
                         : "",
      found.is_cut_off ? "Get the whole file and w" : "W", found.is_broken ? "-rR" : "-r",
      found.is_broken ? "fromjson? | " : "", filter, path.string());
}

}  // namespace trireme
