// Recognises JSON records given as text, whose braces, quotes and keys a model would learn.
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
  bool is_broken = false;           // lines, some of which are no JSON
  bool is_cut_off = false;          // one object or list that ends in the middle
  std::vector<std::string> fields;  // keys of the first object, at most 8
};

/// Judges by the content: the first values are whole JSON, objects or lists, and nothing else is between
/// them; or most of the first 32 lines look like objects; or all of the text is the beginning of an object or
/// list. NaN and Infinity, as Python writes them, are numbers. Text that only begins with a bracket is none.
/// Reads at most 1 MiB.
JsonRecords find_json_records(std::string_view text);

/// What `path` holds, and how its text is taken out: lines of text, or of "label TAB text".
std::string describe_json(const JsonRecords& found, const std::filesystem::path& path, bool labelled);

}  // namespace trireme
