#include "runtime/checkpoint/json_file.h"

#include <string>
#include <unordered_set>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/regular_file.h"

namespace trireme {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{16} << 20;

/// The number of members of all objects in `value`. The text has the same number of names unless an object
/// repeats one.
std::size_t num_members(const nlohmann::json& value) {
  std::size_t members = value.is_object() ? value.size() : 0;
  if (value.is_structured()) {
    for (const nlohmann::json& part : value) members += num_members(part);
  }
  return members;
}

/// SAX handler that stops at a repeated name in an object. nlohmann's callback would visit all earlier values
/// at the end of each object.
class RepeatedName final : public nlohmann::json::json_sax_t {
 public:
  /// "rope_scaling.factor"
  std::string path() const {
    std::string path;
    for (const Object& object : open_) path += (path.empty() ? "" : ".") + object.last;
    return path;
  }

  bool start_object(std::size_t) override {
    open_.emplace_back();
    return true;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool key(string_t& name) override {
    open_.back().last = name;
    return open_.back().names.insert(name).second;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  struct Object {
    std::unordered_set<std::string> names;
    std::string last;
  };
  std::vector<Object> open_;
};

std::string find_repeated_name(std::string_view text) {
  RepeatedName found;
  nlohmann::json::sax_parse(text, &found);
  return found.path();
}

nlohmann::json parse_whole(std::string_view text) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kInvalidInput, "it is not JSON ({:.200})", error.what());
  }
}

}  // namespace

nlohmann::json parse_json(std::string_view text) {
  const int nesting = json_nesting(text);
  TRIREME_CHECK(nesting <= kMaxNesting, "its JSON is nested {} levels deep, and {} are the limit", nesting,
                kMaxNesting);
  nlohmann::json value = parse_whole(text);
  TRIREME_CHECK(
      num_members(value) == json_names(text),
      "it has the name \"{:.200}\" twice in one object, and readers differ in which of the values they "
      "take: remove one of them",
      find_repeated_name(text));
  return value;
}

nlohmann::json read_json_file(const std::filesystem::path& path, const char* what) {
  const std::string text = read_text_file({.path = path, .what = what, .max_bytes = kMaxBytes});
  try {
    return parse_json(text);
  } catch (const Error& error) {
    throw Error(error.code(), "{} {} is damaged: {}", what, path.string(), error.what());
  }
}

}  // namespace trireme
