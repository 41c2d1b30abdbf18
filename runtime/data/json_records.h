// Detects JSON records passed as text, so that a model does not learn their braces, quotes and keys.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct JsonRecords {
  enum class Kind : std::uint8_t {
    kNone,
    kObject,   // one object, such as a package.json
    kRecords,  // lines of values, or a list of values
  };
  Kind kind = Kind::kNone;
  bool is_list = false;             // one list, not lines
  bool is_broken = false;           // lines, some of which are not JSON
  bool is_cut_off = false;          // one object or list that ends in the middle
  std::vector<std::string> fields;  // keys of the first object, at most 8
};

/// Decides by content. Either the first values are complete JSON objects or lists with nothing else between
/// them, or most of the first 32 lines look like objects, or the whole text is the beginning of an object or
/// list. NaN and Infinity, as written by Python, count as numbers. Text that only begins with a bracket does
/// not count. Reads at most 1 MiB.
JsonRecords find_json_records(std::string_view text);

/// Describes the content of `path`, and a command to extract its text: lines of text, or of "label TAB text".
std::string describe_json(const JsonRecords& found, const std::filesystem::path& path, bool labelled);

}  // namespace trireme
